package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/fsm/fsmtest"
)

// FuzzUpstreamStreams sends whatever an upstream may stream to clients of both
// protocols, native and translated, in pieces of any size. What a client gets
// must not depend on the pieces, and it has an end only where the upstream wrote one.
func FuzzUpstreamStreams(f *testing.F) {
	for _, c := range messageCases() {
		if len(c.sent) < 4<<10 {
			f.Add([]byte(c.sent), uint8(3), true)
		}
	}
	for _, c := range streamCases() {
		if len(c.sent) < 4<<10 {
			f.Add([]byte(c.sent), uint8(3), false)
		}
	}
	for _, c := range foreignCases() {
		f.Add([]byte(c.sent), uint8(5), strings.Contains(c.sent, "message_start"))
	}
	fromOpenAI, fromAnthropic := streams(f, fsm.ProviderCompatible), streams(f, fsm.ProviderAnthropic)
	f.Fuzz(func(t *testing.T, stream []byte, size uint8, anthropic bool) {
		got := fromOpenAI
		if anthropic {
			got = fromAnthropic
		}
		for _, client := range []struct{ path, body string }{{"/v1/chat/completions", askedChat}, {"/v1/messages", messageStream}} {
			whole := got(client.path, client.body, string(stream), max(len(stream), 1))
			pieces := got(client.path, client.body, string(stream), int(size)+1)
			if whole != pieces {
				t.Errorf("%s, Anthropic upstream %v:\nwhole  %q\npieces %q", client.path, anthropic, whole, pieces)
			}
			if anthropic && strings.HasSuffix(whole, "data: [DONE]\n\n") && !strings.Contains(string(stream), "message_stop") && !strings.Contains(string(stream), "[DONE]") && !strings.Contains(string(stream), `\u`) {
				t.Errorf("a forged end: %q", whole)
			}
		}
	})
}

// streams returns a function that tells what a client gets of an upstream's
// stream.
func streams(f *testing.F, kind string) func(path, body, stream string, size int) string {
	cfg := one("http://127.0.0.1:1")
	cfg.Models[0].Deployments[0].Provider = kind
	state, client, _ := fsmtest.Open(f, cfg.Normalize())
	if _, err := client.CreateKey(context.Background(), fsm.Key{ID: keyHash(userKey), Name: redacted(userKey)}, fsm.WriteOptions{}); err != nil {
		f.Fatal(err)
	}
	p, err := New(Options{
		View: state.View, Gate: newOpenGate(), MasterKey: masterKey, NodeID: "n1", MaxEvent: 1 << 20,
		Secret: func(string) (string, error) { return providerKey, nil },
		Now:    func() time.Time { return time.Unix(1e9, 0) }, Rand: func() uint64 { return 7 },
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(p.Close)
	real := p.providers[kind]
	return func(path, body, stream string, size int) string {
		p.providers[kind] = foreignScript{scripted{stream, size}, real}
		p.table.Store(nil)
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+userKey)
		func() {
			defer func() {
				if v := recover(); v != nil && v != http.ErrAbortHandler {
					panic(v)
				}
			}()
			p.ServeHTTP(w, r)
		}()
		got, _ := io.ReadAll(w.Body) // from memory
		return string(got)
	}
}
