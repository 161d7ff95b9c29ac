package proxy

import (
	"net"
	"sync"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

// Whoever made an id up must not have eight accounts asked by a request that a
// limit refuses.
func TestNoAccountIsAskedForARequestThatALimitRefuses(t *testing.T) {
	a, b := account(t, "resp_a"), account(t, "resp_b")
	r := newRig(t, accounts(a, b), nil)
	r.gate.admit = func(ticket limiter.Ticket) error {
		return &limiter.Refusal{Ticket: ticket, Scope: limiter.ScopeKey, Dimension: limiter.Requests, RetryAfter: 1}
	}
	if got := r.post("/v1/responses", `{"model":"m","previous_response_id":"resp_made_up"}`); got.StatusCode != 429 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if a.count()+b.count() != 0 {
		t.Errorf("%d and %d calls", a.count(), b.count())
	}
}

// A search costs calls of several accounts and counts in no limit, so a key has
// few of them at a time.
func TestAKeySearchesForFewResponsesAtATime(t *testing.T) {
	let := make(chan struct{})
	slow := newRaw(t, func(c net.Conn) { <-let; say(c, jsonAnswer("404 X", `{}`)) })
	b := account(t, "resp_b")
	r := newRig(t, accounts(slow, b), nil)
	const other = "sk-other-0123456789abcdef0"
	r.addKey(other, fsm.Key{})
	search := func(key string) answer {
		return r.do("GET", "/v1/responses/resp_none", "", "Authorization", "Bearer "+key)
	}
	var all sync.WaitGroup
	for range maxSearches {
		all.Go(func() {
			if got := search(userKey); got.StatusCode != 404 {
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
		})
	}
	eventually(t, "running searches", func() bool { return slow.count() == maxSearches })
	for name, refused := range map[string]answer{
		"GET":      search(userKey),
		"POST":     r.post("/v1/responses", `{"model":"m","previous_response_id":"resp_none"}`),
		"counting": r.post("/v1/responses/input_tokens", `{"model":"m","previous_response_id":"resp_none"}`),
	} {
		wantError(t, refused, 429, typeThrottled, "looked for")
		if refused.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: retry-after %q", name, refused.Header.Get("Retry-After"))
		}
	}
	// One whose account is known, or another key's, goes on.
	r.proxy.origins.put("resp_b", origin{"m", "d1"})
	if got := r.do("GET", "/v1/responses/resp_b", "", "Authorization", "Bearer "+userKey); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	all.Go(func() { search(other) })
	eventually(t, "another key's search", func() bool { return slow.count() == maxSearches+1 })
	close(let)
	all.Wait()
	if got := search(userKey); got.StatusCode != 404 {
		t.Errorf("afterwards: %d %s", got.StatusCode, got.body)
	}
	if n := len(r.proxy.searches.running); n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
}
