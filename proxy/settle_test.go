package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// slowGate takes its time to settle, so that an answer which does not wait for
// it is complete long before.
type slowGate struct{ *fakeGate }

type slowReceipt struct{ Receipt }

func (g slowGate) Admit(ctx context.Context, t limiter.Ticket) (Receipt, error) {
	r, err := g.fakeGate.Admit(ctx, t)
	return slowReceipt{r}, err
}

func (r slowReceipt) Settle(u limiter.Usage) {
	time.Sleep(50 * time.Millisecond)
	r.Receipt.Settle(u)
}

func TestAnswerEndsAfterItsTokensAreSettled(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if f, err := scan(body); err == nil && f.stream {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n")
			return
		}
		_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`)
	}))
	defer up.Close()
	g := slowGate{&fakeGate{}}
	r := newRig(t, fsm.Config{Models: []fsm.Model{
		{Name: "up", Deployments: []fsm.Deployment{{ID: "up", Provider: fsm.ProviderCompatible, APIBase: up.URL}}},
		{Name: "mock", Deployments: []fsm.Deployment{{ID: "mock", Provider: fsm.ProviderMock, MockResponse: "x"}}},
	}}, func(o *Options) { o.Gate = g })
	for i, body := range []string{
		`{"model":"up","messages":[]}`,
		`{"model":"up","messages":[],"stream":true}`,
		`{"model":"mock","messages":[]}`,
		`{"model":"mock","messages":[],"stream":true}`,
	} {
		a := r.post("/v1/chat/completions", body)
		if a.err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", body, a.StatusCode, a.err)
		}
		g.mu.Lock()
		if n := len(g.receipts[i].settled); n != 1 {
			t.Errorf("%s: the answer was complete with %d settlements", body, n)
		}
		g.mu.Unlock()
	}
}
