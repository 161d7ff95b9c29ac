package admin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/admin/admintest"
	"sluice/fsm"
)

// backupOf returns a backup as the route sends it.
func backupOf(t *testing.T, r *rig) string {
	t.Helper()
	p := r.raw("GET", "/cluster/backup", masterKey, "")
	if p.status != 200 || p.header.Get("Content-Length") != strconv.Itoa(len(p.body)) {
		t.Fatalf("%d, %v: %.200s", p.status, p.header, p.body)
	}
	return p.body
}

// used returns a backup of a cluster with a team, two keys and two configurations.
func used(t *testing.T) (file string, secret string) {
	t.Helper()
	r := newRig(t, func(o *admin.Options) {
		o.Identity = func() (string, string) { return "c-old", "1.2.3" }
	})
	r.ok("POST", "/team/new", `{"team_id":"red","rpm_limit":5}`)
	secret, _ = r.generate(`{"key_alias":"alice","team_id":"red","rpm_limit":2}`)
	r.generate(`{"key_alias":"bob"}`, "Idempotency-Key", "bob")
	r.ok("POST", "/priority/set", `{"priority":"prod","share":0.8}`)
	file = backupOf(t, r)
	for _, s := range append(r.secrets, masterKey) {
		if strings.Contains(file, s) {
			t.Errorf("secret %s is in the backup", s)
		}
	}
	return file, secret
}

func TestBackupTakenAndRestoredOverHTTP(t *testing.T) {
	file, secret := used(t)
	r := newRig(t)
	m := r.ok("POST", "/cluster/restore", file)
	from := m["backup"].(map[string]any)
	if m["status"] != "restored" || m["keys"] != 2.0 || m["teams"] != 1.0 || m["config_version"] != 2.0 || from["cluster_id"] != "c-old" || from["version"] != "1.2.3" {
		t.Errorf("%v", m)
	}
	if p := r.raw("GET", "/key/info", secret, ""); p.status != 200 || p.json(t)["info"].(map[string]any)["key_alias"] != "alice" {
		t.Errorf("the key itself: %d %s", p.status, p.body)
	}
	if !strings.Contains(r.logs.String(), "route=/cluster/restore target=cluster outcome=done") {
		t.Errorf("no audit line in %s", r.logs)
	}
}

func TestBackupHasWhatWasAcknowledgedOrIsRefused(t *testing.T) {
	r := newRig(t)
	asked := 0
	current := newRig(t, func(o *admin.Options) { o.Refresh = func(context.Context) error { asked++; return nil } })
	if backupOf(t, current); asked != 1 {
		t.Errorf("the leader was asked %d times", asked)
	}
	r.stale = errNoLeader
	p := r.send("GET", "/cluster/backup", "")
	if message, _, _, _ := p.errorOf(t); p.status != 503 || !strings.Contains(message, "--stale") || p.header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", p.status, p.body)
	}
	if p := r.raw("GET", "/cluster/backup?stale=true", masterKey, ""); p.status != 200 || p.header.Get("X-Sluice-Stale") != "true" {
		t.Errorf("stale: %d", p.status)
	}
	if p := r.send("GET", "/cluster/backup?stale=perhaps", ""); p.status != 400 {
		t.Errorf("perhaps: %d", p.status)
	}
	if p := r.raw("HEAD", "/cluster/backup?stale=true", masterKey, ""); p.status != 200 || p.body != "" {
		t.Errorf("head: %d, %d bytes", p.status, len(p.body))
	}
}

func TestWhatIsNoWholeBackupChangesNothing(t *testing.T) {
	file, _ := used(t)
	flip := func(at int) string {
		b := []byte(file)
		b[(at+len(b))%len(b)] ^= 4
		return string(b)
	}
	for name, tt := range map[string]struct {
		body   string
		header []string
		status int
		says   string
	}{
		"empty":               {body: "", status: 400, says: "not a backup of sluice: it is empty"},
		"JSON":                {body: `{"keys":[]}`, status: 400, says: "not a backup of sluice"},
		"first byte flipped":  {body: flip(0), status: 400, says: "not a backup of sluice"},
		"header flipped":      {body: flip(30), status: 400, says: "damaged"},
		"middle flipped":      {body: flip(len(file) / 2), status: 400, says: "damaged"},
		"last byte flipped":   {body: flip(-1), status: 400, says: "damaged"},
		"cut":                 {body: file[:len(file)-1], status: 400, says: "damaged"},
		"bytes behind":        {body: file + "\n", status: 400, says: "damaged"},
		"packed":              {body: file, header: []string{"Content-Encoding", "gzip"}, status: 415, says: "Content-Encoding"},
		"a hopeless key":      {body: file, header: []string{"Idempotency-Key", "a b"}, status: 400, says: "Idempotency-Key"},
		"something to add to": {body: file, status: 409, says: "it has 1 keys, 0 teams and configuration version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if tt.status == 409 {
				r.generate(`{}`)
			}
			before := r.state.Digest()
			p := r.send("POST", "/cluster/restore", tt.body, tt.header...)
			message, _, _, _ := p.errorOf(t)
			if p.status != tt.status || !strings.Contains(message, tt.says) || strings.Contains(message, "\n") {
				t.Errorf("%d %s", p.status, p.body)
			}
			if tt.status != 415 && tt.says != "Idempotency-Key" && !strings.Contains(message, "Nothing was changed.") {
				t.Errorf("does it say that nothing was changed? %s", message)
			}
			if r.state.Digest() != before {
				t.Error("the state changed")
			}
		})
	}
	t.Run("restored before", func(t *testing.T) {
		r := newRig(t)
		r.ok("POST", "/cluster/restore", file)
		before := r.state.Digest()
		if p := r.send("POST", "/cluster/restore", file); p.status != 409 || r.state.Digest() != before {
			t.Errorf("%d %s", p.status, p.body)
		}
	})
	t.Run("with the same Idempotency-Key", func(t *testing.T) {
		r := newRig(t)
		first := r.send("POST", "/cluster/restore", file, "Idempotency-Key", "once")
		again := r.send("POST", "/cluster/restore", file, "Idempotency-Key", "once")
		if first.status != 200 || again.status != 200 || first.body != again.body {
			t.Errorf("%d %s, then %d %s", first.status, first.body, again.status, again.body)
		}
	})
}

func TestRestoreWithoutAQuorumOrAmongOldNodes(t *testing.T) {
	file, _ := used(t)
	t.Run("no leader", func(t *testing.T) {
		r := newRig(t)
		before := r.state.Digest()
		r.log.Fail(admintest.Fault{Err: errNoLeader})
		if p := r.send("POST", "/cluster/restore", file); p.status != 503 || !strings.Contains(p.body, "nothing was changed") || r.state.Digest() != before {
			t.Errorf("%d %s", p.status, p.body)
		}
	})
	t.Run("a leader that is lost on the way", func(t *testing.T) {
		r := newRig(t)
		r.log.Fail(admintest.Fault{}, admintest.Fault{Err: errUnknown, Applied: true}, admintest.Fault{Err: errNoLeader})
		r.ok("POST", "/cluster/restore", file)
	})
	t.Run("an old node", func(t *testing.T) {
		errOld := errors.New("test: n3 runs version 0.1.0")
		r := newRig(t, func(o *admin.Options) {
			o.Store = refusing{o.Store, errOld}
			o.Classify = func(err error) admin.Failure {
				if errors.Is(err, errOld) {
					return admin.FailureOldMember
				}
				return classify(err)
			}
		})
		if p := r.send("POST", "/cluster/restore", file); p.status != 409 || !strings.Contains(p.body, "cluster status") {
			t.Errorf("%d %s", p.status, p.body)
		}
	})
}

// refusing is a store that restores nothing.
type refusing struct {
	admin.Store
	err error
}

func (r refusing) Restore(context.Context, *fsm.StoredBackup, fsm.WriteOptions) (fsm.RestoreResult, error) {
	return fsm.RestoreResult{}, r.err
}

// serve runs the rig's handler behind a real connection.
func serve(t *testing.T, r *rig) (*admin.Client, string) {
	t.Helper()
	srv := httptest.NewServer(r.admin)
	t.Cleanup(srv.Close)
	c, err := admin.NewClient(admin.ClientOptions{Server: srv.URL, MasterKey: masterKey, Sleep: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c, srv.URL
}

func TestInterruptedUploadChangesNothing(t *testing.T) {
	file, _ := used(t)
	r := newRig(t)
	before := r.state.Digest()
	_, url := serve(t, r)
	body, feed := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/cluster/restore", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+masterKey)
	req.ContentLength = int64(len(file))
	go func() {
		_, _ = io.WriteString(feed, file[:len(file)/2])
		_ = feed.CloseWithError(errors.New("the line is cut"))
	}()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("status %d", resp.StatusCode)
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(r.logs.String(), "outcome=refused"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node never noticed")
		}
	}
	if r.state.Digest() != before {
		t.Error("the state changed")
	}
}

func TestTooLargeAnUploadIsRefusedBeforeItIsRead(t *testing.T) {
	r := newRig(t)
	req := httptest.NewRequest("POST", "/cluster/restore", errorReader{})
	req.Header.Set("Authorization", "Bearer "+masterKey)
	req.ContentLength = fsm.MaxBackup + 1<<20
	w := httptest.NewRecorder()
	r.admin.ServeHTTP(w, req)
	if w.Code != 413 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errors.New("test: it was read") }

func TestClientTakesAndRestoresBackups(t *testing.T) {
	file, _ := used(t)
	r := newRig(t)
	c, _ := serve(t, r)
	r.log.Fail(admintest.Fault{Err: errNoLeader}) // the client sends it again
	answer, err := c.Restore(t.Context(), strings.NewReader(file), int64(len(file)))
	if err != nil || answer.Keys != 2 {
		t.Fatalf("%+v, %v", answer, err)
	}
	var out bytes.Buffer
	info, err := c.Backup(t.Context(), &out, false)
	if err != nil || info.Keys != 2 || info.Teams != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := fsm.ParseBackup(out.Bytes()); err != nil {
		t.Error(err)
	}
	var refused *admin.Error
	if _, err := c.Restore(t.Context(), bytes.NewReader(nil), 0); !errors.As(err, &refused) || refused.Status != 400 {
		t.Errorf("empty: %v", err)
	}
}

func TestClientNoticesABackupThatBreaksOff(t *testing.T) {
	file, _ := used(t)
	for name, answer := range map[string]func(w http.ResponseWriter){
		"cut": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", strconv.Itoa(len(file)))
			_, _ = io.WriteString(w, file[:len(file)/2])
		},
		"cut, and looks whole": func(w http.ResponseWriter) { _, _ = io.WriteString(w, file[:len(file)/2]) },
		"altered":              func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Replace(file, "alice", "alicf", 1)) },
		"another server":       func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
			t.Cleanup(srv.Close)
			c, err := admin.NewClient(admin.ClientOptions{Server: srv.URL, MasterKey: masterKey})
			if err != nil {
				t.Fatal(err)
			}
			if info, err := c.Backup(t.Context(), io.Discard, false); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%+v, %v", info, err)
			}
		})
	}
}
