package proxy

import (
	"net"
	"strings"
	"testing"

	"sluice/limiter"
)

// TestStreamsAreKnownByMoreThanTheirType: media types have no case, and some
// servers of events send none, or what a library guessed.
func TestStreamsAreKnownByMoreThanTheirType(t *testing.T) {
	for _, line := range []string{
		"Content-Type: Text/Event-Stream; charset=utf-8\r\n", "Content-Type: text/event-stream;charset=utf-8\r\n",
		"Content-Type: text/plain; charset=utf-8\r\n", "",
	} {
		t.Run(line, func(t *testing.T) {
			up := newRaw(t, func(c net.Conn) {
				say(c, "HTTP/1.1 200 OK\r\n"+line+"Connection: close\r\n\r\n"+delta+finish+lastUsage+done)
			})
			r := newRig(t, one(up.url), nil)
			a := r.post("/v1/chat/completions", streamBody)
			if a.body != deltaBare+finish+done {
				t.Errorf("the client got %q", a.body)
			}
			if ct := a.Header.Get("Content-Type"); !strings.HasPrefix(strings.ToLower(ct), "text/event-stream") {
				t.Errorf("content type %q", ct)
			}
			if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 11, Output: 5}) {
				t.Errorf("settled %+v", u)
			}
		})
	}
}

// TestTextThatNobodyStreamsStaysText: only a client that asked for a stream
// gets one made of an answer without a type.
func TestTextThatNobodyStreamsStaysText(t *testing.T) {
	up := newRaw(t, func(c net.Conn) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nhello")
	})
	r := newRig(t, one(up.url), nil)
	if a := r.post("/v1/chat/completions", chatBody); a.body != "hello" || a.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("%v %q", a.Header, a.body)
	}
}

// TestErrorsThatUpstreamsStream: an error event is an upstream failure like an
// error status: counted, without the credential, and free of charge if nothing
// was generated before it.
func TestErrorsThatUpstreamsStream(t *testing.T) {
	event := func(text string) string { return "data: {\"error\":{\"message\":\"" + text + "\"}}\n\n" }
	for _, c := range []struct {
		name, sent, want string
		reset, free      bool
	}{
		{"alone", event("overloaded"), event("overloaded"), false, true},
		{"after comments", ": hi\n\n" + event("overloaded"), ": hi\n\n" + event("overloaded"), false, true},
		{"with the credential", event("bad key " + providerKey), event("bad key [redacted]"), false, true},
		{"then [DONE]", event("x") + done, event("x") + done, false, true},
		{"then a broken connection", deltaBare + event("x"), deltaBare + event("x"), true, false},
		{"after a part of the answer", deltaBare + event("x"), deltaBare + event("x"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newRaw(t, func(conn net.Conn) {
				head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
				say(conn, head+chunkOf(c.sent))
				if !c.reset {
					say(conn, "0\r\n\r\n")
				}
			})
			r := newRig(t, one(up.url), nil)
			if a := r.post("/v1/chat/completions", streamBody); a.body != c.want {
				t.Errorf("the client got %q, want %q", a.body, c.want)
			}
			if u := r.gate.spent(t, 0); (u == limiter.Usage{}) != c.free {
				t.Errorf("settled %+v", u)
			}
			if got := r.failures(t); got != "stream_error" {
				t.Errorf("failures: %q", got)
			}
		})
	}
}
