package proxy

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/fsm"
)

// TestEveryErrorOfAStreamIsTold: whatever else an event that reports an error
// holds, and however the connection ends behind it, the client learns of it.
func TestEveryErrorOfAStreamIsTold(t *testing.T) {
	const usageToo = `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":0},"error":{"message":"oh"}}` + "\n\n"
	const untypedError = `data: {"error":{"type":"overloaded_error","message":"oh"}}` + "\n\n"
	const strayError = `data: {"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"x"},"error":{"message":"oh"}}` + "\n\n"
	begun := messageStart(`"input_tokens":25`) + blockStart + textDelta
	for _, c := range []struct {
		name, path, body, sent string
		cfg                    func(string) fsm.Config
		want                   string
	}{
		{"in an event of usage alone", "/v1/chat/completions", streamBody, usageToo, one, `"message":"oh"`},
		{"in an event of usage alone, later", "/v1/chat/completions", streamBody, deltaBare + usageToo, one, `"message":"oh"`},
		{"in an event without a type", "/v1/chat/completions", askedChat, begun + untypedError, claude, `"message":"oh"`},
		{"in a first event without a type", "/v1/chat/completions", askedChat, untypedError, claude, `"message":"oh"`},
		{"about the gateway's credential", "/v1/chat/completions", askedChat, begun + messageEvent("error", `,"error":{"type":"authentication_error","message":"invalid x-api-key"}`), claude, `refused the gateway's own credentials or account; tell the gateway's operator.","type":"api_error"`},
		{"in an event that cannot be translated", "/v1/chat/completions", askedChat, begun + strayError, claude, `"error":{"message":`},
		{"in a first event that cannot be translated", "/v1/chat/completions", askedChat, strayError, claude, `"error":{"message":`},
	} {
		for _, end := range []func(net.Conn){func(net.Conn) {}, func(conn net.Conn) { time.Sleep(20 * time.Millisecond); reset(conn) }} {
			t.Run(c.name, func(t *testing.T) {
				up := newRaw(t, func(conn net.Conn) { say(conn, sseHead+c.sent); end(conn) })
				cfg := c.cfg(up.url)
				cfg.Upstream.MaxAttempts = 1
				r := newRig(t, cfg, nil)
				a := r.post(c.path, c.body)
				if strings.Count(a.body, c.want) != 1 || strings.Contains(a.body, "[DONE]") {
					t.Errorf("%d %q", a.StatusCode, a.body)
				}
			})
		}
	}
}

// TestManyLinesOfOneEventCostWhatTheyAre: an event whose lines end in CR is read
// in one pass, like any other.
func TestManyLinesOfOneEventCostWhatTheyAre(t *testing.T) {
	const lines = 300_000
	event := strings.Repeat("data:\r", lines) + "\r\n\n"
	began := time.Now()
	in := newEventReader(bytes.NewReader([]byte(event)), make([]byte, 0, len(event)), len(event))
	if err := in.fill(); err != nil {
		t.Fatal(err)
	}
	u, ok := in.next()
	if _, n := eventData(u.raw, nil); !ok || n != lines {
		t.Errorf("%d lines", n)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("%d lines took %v", lines, took)
	}
}

// TestUnpackedAnswersLoseTheirDigests: they were those of the packed bytes.
func TestUnpackedAnswersLoseTheirDigests(t *testing.T) {
	up := newAnswers(t, status(200, zip(t, okBody), "Content-Encoding", "gzip", "Etag", `"packed"`, "Content-Md5", "MARK"))
	r := newRig(t, one(up.url), nil)
	if a := r.post("/v1/chat/completions", chatBody); a.body != okBody || a.Header.Get("Etag") != "" || a.Header.Get("Content-Md5") != "" {
		t.Errorf("%v %s", a.Header, a.body)
	}
}

// TestPackedRefusalsAreRead: what a refusal says decides about stand-ins, packed
// or not.
func TestPackedRefusalsAreRead(t *testing.T) {
	long, b := newAnswers(t, status(400, zip(t, tooLong), "Content-Encoding", "gzip", "Content-Digest", "MARK")), newAnswers(t, served)
	cfg := ladder(long, b, b)
	r := newRig(t, cfg, nil)
	if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 400 || a.body != tooLong || a.Header.Get("Content-Encoding") != "" || a.Header.Get("Content-Digest") != "" {
		t.Errorf("without a stand-in: %d %q", a.StatusCode, a.body)
	}
	cfg.Models[0].ContextWindowFallbacks = []string{"b"}
	r = newRig(t, cfg, nil)
	if a := r.post("/v1/chat/completions", chatBody); a.StatusCode != 200 || a.Header.Get("X-Litellm-Model-Group") != "b" {
		t.Errorf("%d by %q: %s", a.StatusCode, a.Header.Get("X-Litellm-Model-Group"), a.body)
	}
}
