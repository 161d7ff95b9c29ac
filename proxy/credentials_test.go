package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/fsm"
	"sluice/fsm/fsmtest"
)

func TestCredentials(t *testing.T) {
	r := newRig(t, mocked(), nil)
	const second = "sk-second-0123456789abcd"
	r.addKey(second, fsm.Key{})
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		typ     string
		text    string
	}{
		{"bearer", []string{"Authorization", "Bearer " + userKey}, 200, "", ""},
		{"bearer in any case", []string{"Authorization", "bEARER " + userKey}, 200, "", ""},
		{"basic", []string{"Authorization", "Basic " + userKey}, 200, "", ""},
		{"two blanks", []string{"Authorization", "Bearer   " + userKey + " "}, 200, "", ""},
		{"x-litellm-api-key", []string{"x-litellm-api-key", userKey}, 200, "", ""},
		{"x-litellm-api-key with a scheme", []string{"x-litellm-api-key", "Bearer " + userKey}, 200, "", ""},
		{"api-key", []string{"api-key", userKey}, 200, "", ""},
		{"x-api-key", []string{"x-api-key", userKey}, 200, "", ""},
		{"x-goog-api-key", []string{"x-goog-api-key", userKey}, 200, "", ""},
		{"master key", []string{"Authorization", "Bearer " + masterKey}, 200, "", ""},
		{"foreign credentials are skipped", []string{"Authorization", "Bearer eyJhbGciOi", "x-api-key", userKey}, 200, "", ""},
		{"bare word is skipped", []string{"Authorization", userKey, "x-api-key", userKey}, 200, "", ""},
		{"the same key twice", []string{"Authorization", "Bearer " + userKey, "x-api-key", userKey}, 200, "", ""},
		{"a valid and a later invalid one", []string{"Authorization", "Bearer " + userKey, "x-api-key", "sk-unknown-01234567"}, 200, "", ""},
		{"two valid ones", []string{"Authorization", "Bearer " + userKey, "x-api-key", second}, 400, "", "Two different valid keys"},
		{"valid and master", []string{"x-litellm-api-key", masterKey, "api-key", userKey}, 400, "", "Two different valid keys"},
		{"two valid ones in one header", []string{"x-api-key", userKey, "x-api-key", second}, 400, "", "Two different valid keys"},
		{"the first shaped one counts", []string{"Authorization", "Bearer sk-unknown-01234567", "x-api-key", userKey}, 401, "token_not_found_in_db", "Received API Key = sk-...4567, Key Hash (Token) =" + keyHash("sk-unknown-01234567") + ". Unable to find token in cache or `LiteLLM_VerificationTokenTable`"},
		{"none", nil, 401, "auth_error", "Authentication Error, No api key passed in."},
		{"empty bearer", []string{"Authorization", "Bearer "}, 401, "auth_error", "No api key passed in."},
		{"no scheme", []string{"Authorization", userKey}, 401, "auth_error", "Malformed API Key passed in. Ensure Key has `Bearer ` prefix."},
		{"foreign only", []string{"Authorization", "Bearer abcdefghijklmnopqrstuvwxyz"}, 401, "auth_error", "LiteLLM Virtual Key expected. Received=****wxyz, expected to start with 'sk-'."},
		{"almost the key", []string{"Authorization", "Bearer " + userKey[:len(userKey)-1]}, 401, "token_not_found_in_db", ""},
		{"the key in another case", []string{"Authorization", "Bearer " + strings.ToUpper(userKey)}, 401, "", ""},
		{"the hash is no key", []string{"Authorization", "Bearer " + keyHash(userKey)}, 401, "", ""},
		{"key in the query", []string{}, 401, "", "No api key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := r.do("POST", "/v1/chat/completions?key="+userKey, chatBody, c.headers...)
			if c.status == 200 {
				if a.StatusCode != 200 {
					t.Fatalf("%d %s", a.StatusCode, a.body)
				}
				return
			}
			wantError(t, a, c.status, c.typ, c.text)
			for _, s := range []string{userKey, masterKey, second, "sk-unknown-01234567"} {
				if strings.Contains(a.body, s) {
					t.Errorf("the answer holds a key: %s", a.body)
				}
			}
		})
	}
}

func TestUnusableKeys(t *testing.T) {
	r := newRig(t, mocked(), nil)
	r.addTeam(fsm.Team{ID: "shut", Blocked: true})
	r.addKey("sk-blocked-0123456789", fsm.Key{Blocked: true})
	r.addKey("sk-expired-0123456789", fsm.Key{Expires: time.Now().Add(-time.Second).UTC()})
	r.addKey("sk-ofshut-0123456789x", fsm.Key{TeamID: "shut"})
	for _, c := range []struct{ key, typ, text string }{
		{"sk-blocked-0123456789", "auth_error", "Authentication Error, Key is blocked. Update via `/key/unblock` if you're an admin."},
		{"sk-expired-0123456789", "expired_key", "Authentication Error - Expired Key. Key Expiry time "},
		{"sk-ofshut-0123456789x", "auth_error", "Authentication Error, Team=shut is blocked. Update via `/team/unblock` if you're an admin."},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/models"} {
			method := "POST"
			if strings.HasSuffix(path, "models") {
				method = "GET"
			}
			a := r.do(method, path, chatBody, "Authorization", "Bearer "+c.key)
			wantError(t, a, 401, c.typ, c.text)
			if c.typ == "expired_key" && !strings.Contains(a.body, `"param":"sk-...6789"`) {
				t.Errorf("param: %s", a.body)
			}
		}
	}
}

func TestKeyIsCheckedBeforeTheBody(t *testing.T) {
	r := newRig(t, mocked(), nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// A body that never comes: with Expect the server must not even ask for it.
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer sk-unknown-01234567\r\nContent-Length: 2000000000\r\nExpect: 100-continue\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestDrippingBodyWithoutAKeyIsCutShort(t *testing.T) {
	r := newRig(t, mocked(), nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{")
	start := time.Now()
	_ = c.SetReadDeadline(start.Add(10 * time.Second))
	b, _ := io.ReadAll(c)
	if !strings.Contains(string(b), "401 Unauthorized") {
		t.Errorf("got %q", b)
	}
	if d := time.Since(start); d > unreadGrace+3*time.Second {
		t.Errorf("the connection was held for %v", d)
	}
}

func TestUnknownKeyAsksTheLeaderOnce(t *testing.T) {
	// "here" lags behind "leader" until it is refreshed.
	here, _, _ := fsmtest.Open(t, mocked().Normalize())
	leader, write, _ := fsmtest.Open(t, mocked().Normalize())
	var current atomic.Pointer[fsm.State]
	current.Store(here)
	var asked atomic.Int64
	var fail atomic.Pointer[error]
	r := newRig(t, mocked(), func(o *Options) {
		o.View = func() *fsm.View { return current.Load().View() }
		o.Refresh = func(context.Context) error {
			asked.Add(1)
			if err := fail.Load(); err != nil {
				return *err
			}
			current.Store(leader)
			return nil
		}
	})
	const fresh = "sk-fresh-0123456789abc"
	send := func() answer { return r.do("POST", "/chat/completions", chatBody, "Authorization", "Bearer "+fresh) }

	down := errors.New("no leader")
	fail.Store(&down)
	a := send()
	wantError(t, a, 503, "", "could not ask the cluster's leader")
	if a.Header.Get("x-sluice-limited-by") != "quorum" {
		t.Errorf("limited by %q", a.Header.Get("x-sluice-limited-by"))
	}
	fail.Store(nil)
	wantError(t, send(), 401, "token_not_found_in_db", "") // a miss, asked and answered

	if _, err := write.CreateKey(context.Background(), fsm.Key{ID: keyHash(fresh), Name: "sk-...9abc"}, fsm.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	current.Store(here) // acknowledged elsewhere, not applied here
	if a := send(); a.StatusCode != 200 {
		t.Errorf("a fresh key after a miss: %d %s", a.StatusCode, a.body)
	}
	before := asked.Load()
	if a := send(); a.StatusCode != 200 || asked.Load() != before {
		t.Errorf("a known key: %d, asked %d more", a.StatusCode, asked.Load()-before)
	}
}

func TestFloodOfUnknownKeysSharesQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		release := make(chan struct{})
		r := newRefresher(func(context.Context) error {
			asked.Add(1)
			<-release
			return nil
		})
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if err := r.wait(context.Background()); err != nil {
					t.Errorf("wait: %v", err)
				}
			})
		}
		synctest.Wait() // one question is asked, and everybody else is behind the next
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := r.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("wait with a dead context: %v", err)
		}
		close(release)
		wg.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("%d questions for 200 waiters, want 2", n)
		}
	})
}

func TestMasterKeyNeedNotStartWithSk(t *testing.T) {
	r := newRig(t, mocked(), func(o *Options) { o.MasterKey = "plain-master-0123456789" })
	a := r.do("POST", "/chat/completions", chatBody, "Authorization", "Bearer plain-master-0123456789")
	if a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	wantError(t, r.do("POST", "/chat/completions", chatBody, "Authorization", "Bearer plain-master-0123456780"), 401, "auth_error", "expected to start with 'sk-'")
}

func FuzzCredentials(f *testing.F) {
	for _, s := range []string{"Bearer sk-x", "bearer", "Basic  sk-abc", "sk-...", "Digest a", " \t", "Bearer Bearer sk-1", "ключ", strings.Repeat("k", 300)} {
		f.Add(s, s)
	}
	state, _, _ := fsmtest.Open(f, mocked().Normalize())
	p, err := New(Options{View: state.View, Gate: &fakeGate{}, MasterKey: masterKey, NodeID: "n"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, auth, other string) {
		r := &http.Request{Header: http.Header{"Authorization": {auth}, "X-Api-Key": {other}}}
		id, err := p.Identify(r)
		if err == nil {
			if !id.Master || (!strings.Contains(auth, masterKey) && !strings.Contains(other, masterKey)) {
				t.Fatalf("%q, %q are %+v", auth, other, id)
			}
			return
		}
		var e *Error
		if !errors.As(err, &e) || e.Status != 401 {
			t.Fatalf("error %v", err)
		}
		const fixed = "Authentication Error, Malformed API Key passed in. Ensure Key has `Bearer ` prefix. No api key passed in. LiteLLM Virtual Key expected. Received=****, expected to start with 'sk-'. Invalid proxy server token passed. Received API Key = sk-..., Key Hash (Token) =. Unable to find token in cache or `LiteLLM_VerificationTokenTable`"
		for _, v := range []string{auth, other} {
			token, _ := tokenOf("X-Api-Key", v)
			if len(token) >= 16 && strings.Contains(e.Message, token) && !strings.Contains(fixed, token) {
				t.Fatalf("message %q repeats %q", e.Message, token)
			}
		}
	})
}
