package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/fsm"
	"sluice/fsm/fsmtest"
	"sluice/limiter"
)

const (
	masterKey   = "sk-master-0123456789abcdef"
	userKey     = "sk-user-0123456789abcdef01"
	providerKey = "sk-provider-secret-9876543210"
)

// fakeGate admits everything, or what admit says, and keeps the books.
type fakeGate struct {
	admit func(limiter.Ticket) error // nil: everything is admitted

	mu       sync.Mutex
	tickets  []limiter.Ticket
	receipts []*fakeReceipt
	standing [limiter.NumScopes]limiter.Standing
}

type fakeReceipt struct {
	gate     *fakeGate
	decision *limiter.Decision
	settled  []limiter.Usage
}

func (g *fakeGate) Admit(_ context.Context, t limiter.Ticket) (Receipt, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tickets = append(g.tickets, t)
	if g.admit != nil {
		if err := g.admit(t); err != nil {
			return nil, err
		}
	}
	r := &fakeReceipt{gate: g, decision: &limiter.Decision{Admitted: true, Standings: g.standing}}
	g.receipts = append(g.receipts, r)
	return r, nil
}

func (r *fakeReceipt) Settle(u limiter.Usage) {
	r.gate.mu.Lock()
	defer r.gate.mu.Unlock()
	r.settled = append(r.settled, u)
}

func (r *fakeReceipt) Mode() string                { return limiter.Exact }
func (r *fakeReceipt) Decision() *limiter.Decision { return r.decision }

// spent waits until the n-th receipt is settled and returns its usage.
func (g *fakeGate) spent(t *testing.T, n int) limiter.Usage {
	t.Helper()
	var u limiter.Usage
	eventually(t, "a settled receipt", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if n >= len(g.receipts) || len(g.receipts[n].settled) == 0 {
			return false
		}
		u = g.receipts[n].settled[0]
		return true
	})
	return u
}

// eventually polls until ok, for at most five seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("no %s within 5 s", what)
}

// rig is a Proxy behind a real server, with its state and its books.
type rig struct {
	t      testing.TB
	url    string
	proxy  *Proxy
	gate   *fakeGate
	client *fsm.Client
	state  *fsm.State
	logs   *lockedBuffer
	reg    *prometheus.Registry
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newRig serves cfg. When the test ends every receipt must have been settled
// exactly once, no goroutine may be left, and no log may hold a secret.
func newRig(t *testing.T, cfg fsm.Config, change func(*Options)) *rig {
	t.Helper()
	base := runtime.NumGoroutine()
	t.Cleanup(func() { checkGoroutines(t, base) })
	state, client, _ := fsmtest.Open(t, cfg.Normalize())
	r := &rig{t: t, gate: &fakeGate{}, client: client, state: state, logs: &lockedBuffer{}, reg: prometheus.NewRegistry()}
	o := Options{
		View: state.View, Gate: r.gate, MasterKey: masterKey, NodeID: "n1",
		Secret: func(ref string) (string, error) {
			if ref == "os.environ/EMPTY" {
				return "", nil
			}
			return providerKey, nil
		},
		Logger:     slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: r.reg,
	}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatalf("new proxy: %v", err)
	}
	r.proxy = p
	ctx, cancel := context.WithCancelCause(context.Background())
	srv := httptest.NewUnstartedServer(p)
	srv.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	srv.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(r.logs, nil), slog.LevelError)
	srv.Start()
	r.url = srv.URL
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
		cancel(nil)
		p.Close()
		r.nothingInFlight()
		r.gate.mu.Lock()
		defer r.gate.mu.Unlock()
		for i, rec := range r.gate.receipts {
			if len(rec.settled) != 1 {
				t.Errorf("receipt %d was settled %d times: %v", i, len(rec.settled), rec.settled)
			}
		}
		for _, s := range []string{masterKey, userKey, providerKey} {
			if strings.Contains(r.logs.String(), s) {
				t.Errorf("the log holds %q:\n%s", s, r.logs.String())
			}
		}
	})
	r.addKey(userKey, fsm.Key{})
	return r
}

// nothingInFlight checks that every request that was counted as running has ended.
func (r *rig) nothingInFlight() {
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Errorf("gather: %v", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "sluice_inflight" && m.GetGauge().GetValue() != 0 {
				r.t.Errorf("%v of %s are still in flight", m.GetGauge().GetValue(), m.GetLabel()[0].GetValue())
			}
		}
	}
}

func checkGoroutines(t *testing.T, base int) {
	t.Helper()
	end := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > base {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Errorf("%d goroutines, %d at the start:\n%s", runtime.NumGoroutine(), base, buf[:runtime.Stack(buf, true)])
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func keyHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (r *rig) addKey(secret string, k fsm.Key) {
	r.t.Helper()
	k.ID, k.Name = keyHash(secret), redacted(secret)
	if _, err := r.client.CreateKey(context.Background(), k, fsm.WriteOptions{}); err != nil {
		r.t.Fatalf("create key: %v", err)
	}
}

func (r *rig) addTeam(team fsm.Team) {
	r.t.Helper()
	if _, err := r.client.CreateTeam(context.Background(), team, fsm.WriteOptions{}); err != nil {
		r.t.Fatalf("create team: %v", err)
	}
}

// answer is a response, read to its end.
type answer struct {
	*http.Response
	body string
	err  error // of reading the body
}

// post sends a body with the user's key; headers come in pairs.
func (r *rig) post(path, body string, headers ...string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, path, body, append([]string{"Authorization", "Bearer " + userKey}, headers...)...)
}

func (r *rig) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res, string(b), err}
}

// wantError checks status and envelope, and that the message holds text.
func wantError(t *testing.T, a answer, status int, typ, text string) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("status %d, want %d; body %s", a.StatusCode, status, a.body)
	}
	var e struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("not an envelope: %v: %q", err, a.body)
	}
	if typ != "" && e.Error.Type != typ {
		t.Errorf("type %q, want %q", e.Error.Type, typ)
	}
	if e.Error.Code != http.StatusText(status) && e.Error.Code != itoa(status) {
		t.Errorf("code %q, want %d", e.Error.Code, status)
	}
	if !strings.Contains(e.Error.Message, text) {
		t.Errorf("message %q does not hold %q", e.Error.Message, text)
	}
	if ct := a.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// rawUpstream is an upstream that a test scripts byte by byte.
type rawUpstream struct {
	url string
	mu  sync.Mutex
	got []recorded
}

type recorded struct {
	uri    string
	header http.Header
	body   string
}

// newRaw serves every request with script, which owns the connection until it
// returns; then the connection is closed.
func newRaw(t *testing.T, script func(c net.Conn)) *rawUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &rawUpstream{url: "http://" + l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				body, _ := io.ReadAll(req.Body)
				u.mu.Lock()
				u.got = append(u.got, recorded{req.RequestURI, req.Header, string(body)})
				u.mu.Unlock()
				script(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return u
}

func (u *rawUpstream) requests() []recorded {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]recorded(nil), u.got...)
}

// reset makes the connection end with an RST.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func say(c net.Conn, s string) { _, _ = io.WriteString(c, s) }

// closed waits until the other side has gone.
func closed(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(io.Discard, c)
}

const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

func jsonAnswer(status, body string) string {
	return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nContent-Length: " + itoa(len(body)) + "\r\nConnection: close\r\n\r\n" + body
}

// one is a configuration with the model "m" on one OpenAI-like upstream.
func one(base string) fsm.Config {
	cfg := fsm.DefaultConfig()
	cfg.Upstream.MaxAttempts = 1 // retries have tests of their own
	cfg.Models = []fsm.Model{{Name: "m", Deployments: []fsm.Deployment{{
		ID: "d1", Provider: fsm.ProviderCompatible, APIBase: base + "/v1", APIKey: "os.environ/KEY",
	}}}}
	return cfg
}

// mocked is a configuration with the model "m" on the mock.
func mocked() fsm.Config {
	cfg := fsm.DefaultConfig()
	cfg.Models = []fsm.Model{{Name: "m", Deployments: []fsm.Deployment{{
		ID: "mock-1", Provider: fsm.ProviderMock, MockResponse: "hello big world",
	}}}}
	return cfg
}
