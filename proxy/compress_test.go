package proxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"strings"
	"testing"

	"sluice/limiter"
)

func zip(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEveryClientCanReadEveryAnswer crosses what clients accept with what
// upstreams send, though they were asked for identity.
func TestEveryClientCanReadEveryAnswer(t *testing.T) {
	const brotli = "\x0b\x02\x80 not really" // nobody here can read it
	events := deltaBare + finish + lastUsage + done
	counted, guessed := limiter.Usage{Input: 7, Output: 3, Cached: 2}, limiter.Usage{Input: estimate(int64(len(chatBody))), Output: estimate(int64(len(brotli)))}
	streamed := limiter.Usage{Input: 11, Output: 5}
	for _, up := range []struct {
		name, body, kind, encoding string
		sent                       string // on the wire
	}{
		{"identity", okBody, "application/json", "", okBody},
		{"named identity", okBody, "application/json", "identity", okBody},
		{"gzip", okBody, "application/json", "gzip", zip(t, okBody)},
		{"x-gzip", okBody, "application/json", "X-GZIP", zip(t, okBody)},
		{"two members of gzip", okBody, "application/json", "gzip", zip(t, okBody[:20]) + zip(t, okBody[20:])},
		{"gzip events", events, "text/event-stream", "gzip", zip(t, events)},
		{"identity events", events, "text/event-stream", "", events},
		{"br", brotli, "application/json", "br", brotli},
	} {
		for _, accept := range []string{"", "gzip", "br", "identity", "gzip;q=0", "gzip, deflate, br, zstd", "br;q=0, gzip", "*"} {
			t.Run(up.name+" to "+accept, func(t *testing.T) {
				head := "HTTP/1.1 200 OK\r\nContent-Type: " + up.kind + "\r\nContent-Length: " + itoa(len(up.sent)) + "\r\n"
				if up.encoding != "" {
					head += "Content-Encoding: " + up.encoding + "\r\n"
				}
				u := newRaw(t, func(c net.Conn) { say(c, head+"\r\n"+up.sent) })
				r := newRig(t, one(u.url), nil)
				headers := []string{"Accept-Encoding", accept}
				if accept == "" {
					headers[1] = "identity;q=1" // Go's client would add gzip by itself
				}
				body, want := chatBody, counted
				if up.kind == "text/event-stream" {
					body, want = askedBody, streamed
				}
				a := r.post("/v1/chat/completions", body, headers...)
				if got := u.requests()[0].header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("asked the upstream for %q", got)
				}
				readsBrotli := accept == "br" || accept == "gzip, deflate, br, zstd"
				if up.encoding == "br" && !readsBrotli {
					wantError(t, a, 502, "", "nobody asked for")
					return
				}
				encoding := ""
				if up.encoding == "br" {
					encoding, want = "br", guessed
				}
				if a.StatusCode != 200 || a.body != up.body || a.err != nil || a.Header.Get("Content-Encoding") != encoding {
					t.Errorf("%d %v %.200q, %v", a.StatusCode, a.Header, a.body, a.err)
				}
				if n := a.Header.Get("Content-Length"); n != "" && n != itoa(len(up.body)) {
					t.Errorf("Content-Length %s of %d bytes", n, len(up.body))
				}
				if got := r.gate.spent(t, 0); got != want {
					t.Errorf("settled %+v, want %+v", got, want)
				}
			})
		}
	}
}

func TestCutGzipIsNoWholeAnswer(t *testing.T) {
	sent := zip(t, `{"x":"`+noise(200_000)+`"}`)
	for _, n := range []int{5, len(sent) / 2, len(sent) - 4} {
		up := newRaw(t, func(c net.Conn) {
			say(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"+sent[:n])
		})
		r := newRig(t, one(up.url), nil)
		if a := r.post("/v1/chat/completions", chatBody); a.err == nil && a.StatusCode == 200 {
			t.Errorf("%d of %d bytes look whole", n, len(sent))
		}
	}
}

// noise is text that does not get much smaller.
func noise(n int) string {
	var b strings.Builder
	for x := uint64(1); b.Len() < n; {
		x = x*6364136223846793005 + 1442695040888963407
		b.WriteByte('a' + byte(x>>33)%26)
	}
	return b.String()
}

func TestPackedRequestsGoUpUnpacked(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", okBody)) })
	r := newRig(t, one(up.url), nil)
	big := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", 90_000) + `"}]}`
	a := r.post("/v1/chat/completions", zip(t, big), "Content-Encoding", "gzip")
	got := up.requests()[0]
	if a.StatusCode != 200 || got.body != big || got.header.Get("Content-Encoding") != "" || got.header.Get("Content-Length") != itoa(len(big)) {
		t.Errorf("%d; %d bytes went up, %v", a.StatusCode, len(got.body), got.header)
	}
}
