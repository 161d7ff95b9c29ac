package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"sluice/fsm"
	"sluice/fsm/fsmtest"
	"sluice/limiter"
)

// openGate admits at once and shows limits in every scope, so that their
// headers are written.
type openGate struct{ decision limiter.Decision }

type openReceipt struct{ gate *openGate }

func (g *openGate) Admit(context.Context, limiter.Ticket) (Receipt, error) {
	return openReceipt{g}, nil
}
func (r openReceipt) Settle(limiter.Usage)        {}
func (r openReceipt) Mode() string                { return limiter.Exact }
func (r openReceipt) Decision() *limiter.Decision { return &r.gate.decision }

func newOpenGate() *openGate {
	g := &openGate{}
	for s := range g.decision.Standings {
		g.decision.Standings[s].Limits = limiter.Limits{Requests: limiter.Of(1000), Tokens: limiter.Of(100000)}
	}
	return g
}

// benchServers starts an upstream, a bare reverse proxy and sluice before it.
func benchServers(b *testing.B, handler http.HandlerFunc) (direct, bare, ours string) {
	b.Helper()
	up := httptest.NewServer(handler)
	b.Cleanup(up.Close)
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	plain := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 1024, DisableCompression: true, WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10},
		FlushInterval: -1,
	}
	front := httptest.NewServer(plain)
	b.Cleanup(front.Close)

	state, client, _ := fsmtest.Open(b, one(up.URL).Normalize())
	if _, err := client.CreateKey(context.Background(), fsm.Key{ID: keyHash(userKey), Name: redacted(userKey)}, fsm.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	p, err := New(Options{
		View: state.View, Gate: newOpenGate(), MasterKey: masterKey, NodeID: "n1",
		Secret: func(string) (string, error) { return providerKey, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(p)
	b.Cleanup(func() { srv.Close(); p.Close() })
	return up.URL, front.URL, srv.URL
}

// load sends b.N requests over the given number of connections.
func load(b *testing.B, base, body string, connections int) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
	defer client.CloseIdleConnections()
	work := make(chan struct{}, connections)
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range connections {
		wg.Go(func() {
			for range work {
				req, err := http.NewRequest("POST", base+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+userKey)
				req.Header.Set("Content-Type", "application/json")
				res, err := client.Do(req)
				if err != nil {
					b.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != 200 {
					b.Errorf("status %d", res.StatusCode)
				}
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
}

// BenchmarkAgainstReverseProxy puts the handler beside a bare reverse proxy
// before the same upstream, on the same machine in one run: only the ratio of
// the figures means something.
func BenchmarkAgainstReverseProxy(b *testing.B) {
	stream := strings.Repeat(delta, 20) + finish + lastUsage + done
	for _, c := range []struct {
		name, body, answer, typ string
	}{
		{"small", chatBody, okBody, "application/json"},
		{"prompt200KB", `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", 17000) + `"}]}`, okBody, "application/json"},
		{"stream", streamBody, stream, "text/event-stream"},
	} {
		direct, bare, ours := benchServers(b, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", c.typ)
			_, _ = io.WriteString(w, c.answer)
		})
		for _, target := range []struct{ name, url string }{{"direct", direct}, {"reverseproxy", bare}, {"sluice", ours}} {
			for _, n := range []string{"1", "64"} {
				connections := map[string]int{"1": 1, "64": 64}[n]
				b.Run(c.name+"/"+target.name+"/"+n+"conns", func(b *testing.B) { load(b, target.url, c.body, connections) })
			}
		}
	}
}

func BenchmarkScan(b *testing.B) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", 17000) + `"}],"stream":true}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := scan(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInspectChunk(b *testing.B) {
	raw := []byte(delta)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		data, lines := eventData(raw, nil)
		c := inspect(data)
		out = c.withoutUsage(out[:0], raw, data, lines)
	}
}

func BenchmarkIdentify(b *testing.B) {
	state, client, _ := fsmtest.Open(b, mocked().Normalize())
	if _, err := client.CreateKey(context.Background(), fsm.Key{ID: keyHash(userKey), Name: redacted(userKey)}, fsm.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	p, err := New(Options{View: state.View, Gate: newOpenGate(), MasterKey: masterKey, NodeID: "n1"})
	if err != nil {
		b.Fatal(err)
	}
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + userKey}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Identify(r); err != nil {
			b.Fatal(err)
		}
	}
}
