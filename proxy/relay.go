package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// relayChunk is how much of an answer is held before its first byte goes
	// down: what ends within it can still fail with a plain error, and goes
	// down in one write.
	relayChunk = 32 << 10
	// maxErrorBody is as much of an upstream's error as is passed on.
	maxErrorBody = 1 << 20
)

// relay passes the upstream's answer on. The error is one that can still be
// told in a status; later ones are told in the stream or by breaking off.
func (x *exchange) relay(w *watch, c *call, res *http.Response) error {
	if meaningless(res.StatusCode) {
		return x.nonsense(fmt.Sprintf("The upstream answered with status %d, which has no meaning here.", res.StatusCode))
	}
	body, err := x.unpacked(w, res)
	if err != nil {
		return err
	}
	if res.StatusCode >= 400 {
		return x.relayError(w, body, res)
	}
	if x.foreign && !c.stream && isStream(res) {
		return x.nonsense("The upstream answered with a stream that nobody asked for.")
	}
	if (c.endpoint.streams() || c.endpoint.typed()) && res.Header.Get("Content-Encoding") == "" && (isStream(res) || c.stream && untyped(res)) {
		if untyped(res) {
			res.Header["Content-Type"] = eventStream
		}
		return x.stream(w, c, body, res)
	}
	if x.foreign {
		return x.relayForeign(w, c, body, res)
	}
	return x.relayBody(w, body, res)
}

// meaningless reports whether a status is none that an answer to a call can
// have: it has a body, and nothing is followed or was cached.
func meaningless(status int) bool {
	switch {
	case status == http.StatusNoContent, status == http.StatusResetContent:
		return true
	case status >= 300 && status < 400:
		return true
	}
	return status < 200 || status > 599
}

// unpacked returns the answer's body, readable. An upstream is asked for
// identity; one that packs all the same is unpacked if it can be, and passed on
// as it is if the client said that it can read it.
func (x *exchange) unpacked(w *watch, res *http.Response) (io.Reader, error) {
	w.body = res.Body
	switch enc := strings.ToLower(res.Header.Get("Content-Encoding")); {
	case enc == "", enc == "identity":
		res.Header.Del("Content-Encoding")
		return w, nil
	case isGzip(res.Header):
		z, err := gzip.NewReader(w)
		if err != nil {
			return nil, x.upstreamFailed(w, err)
		}
		nowPlain(res.Header)
		res.ContentLength = -1
		return z, nil
	default:
		if !x.foreign && acceptsEncoding(x.r.Header, enc) {
			return w, nil
		}
		return nil, x.nonsense("The upstream packed its answer in a way that nobody asked for.")
	}
}

// nonsense is the answer to an upstream that breaks the protocol.
func (x *exchange) nonsense(message string) error {
	f := failure{"protocol", badGateway(message, nil)}
	x.failed(f)
	return f.err
}

// nowPlain takes from an answer's headers what was about its packed body.
func nowPlain(h http.Header) {
	h.Del("Content-Encoding")
	withoutDigests(h)
}

func isGzip(h http.Header) bool {
	enc := strings.ToLower(h.Get("Content-Encoding"))
	return enc == "gzip" || enc == "x-gzip"
}

func acceptsEncoding(h http.Header, enc string) bool {
	for _, v := range h["Accept-Encoding"] {
		for part := range strings.SplitSeq(v, ",") {
			name, q, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), enc) && !strings.HasPrefix(strings.TrimSpace(q), "q=0") {
				return true
			}
		}
	}
	return false
}

// relayError passes an upstream's error on: status, body and headers stay, but
// for a refusal of the deployment's own credential, which is nothing that the
// caller could put right.
func (x *exchange) relayError(w *watch, body io.Reader, res *http.Response) error {
	status := res.StatusCode
	if status == http.StatusUnauthorized {
		f := failure{"credential", &Error{
			Status: http.StatusBadGateway, Type: "authentication_error",
			Message: "The upstream refused the credential that the gateway holds for deployment " + x.target.ID + ". The key of this request is fine; an operator must put the deployment's api_key right.",
		}}
		x.failed(f)
		return f.err
	}
	text, err := io.ReadAll(io.LimitReader(body, maxErrorBody))
	if err != nil {
		return x.upstreamFailed(w, err)
	}
	x.ready = x.p.now()
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		x.failed(failure{"status_" + strconv.Itoa(status), badGateway("", nil)})
	default:
		x.outcome = "upstream_error"
	}
	text, _ = x.withoutCredential(text)
	f := x.usageFinder()
	_, _ = f.Write(text) // it takes everything
	x.usage = f.usage
	h := x.w.Header()
	x.responseHeaders(res)
	if x.foreign {
		status, text = x.foreignError(status, text)
	}
	if res.StatusCode == http.StatusTooManyRequests {
		x.limited = "upstream"
		h["X-Sluice-Limited-By"] = []string{x.limited}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	x.status = status
	x.w.WriteHeader(status)
	// An error here means that the client is gone; there is nobody to tell.
	_, _ = x.w.Write(text)
	return nil
}

// withoutCredential returns an upstream's error without the deployment's
// credential, which some repeat there; changed tells whether it was in it.
func (x *exchange) withoutCredential(b []byte) (clean []byte, changed bool) {
	secret := []byte(x.target.secret)
	if len(secret) == 0 || !bytes.Contains(b, secret) {
		return b, false
	}
	return bytes.ReplaceAll(b, secret, []byte("[redacted]")), true
}

// withoutSecret takes the deployment's credential out of a text that an
// upstream had a part in.
func (x *exchange) withoutSecret(s string) string {
	if x.target == nil || x.target.secret == "" {
		return s
	}
	return strings.ReplaceAll(s, x.target.secret, "[redacted]")
}

// usageFinder returns a finder of the usage in an answer of the upstream's.
func (x *exchange) usageFinder() usageFinder {
	return usageFinder{usage: newUsage(x.target.provider.serves(x.endpoint).protocol())}
}

// responseHeaders puts the upstream's headers and the gateway's on the answer.
func (x *exchange) responseHeaders(res *http.Response) {
	x.forget() // no attempt can follow
	copyResponseHeader(x.w.Header(), res.Header, x.target.secret)
	if x.foreign {
		foreignHeaders(x.w.Header(), x.endpoint.protocol())
	}
	x.modelHeaders()
}

// relayBody passes a whole answer on, byte for byte, and reads its usage in
// passing.
func (x *exchange) relayBody(w *watch, body io.Reader, res *http.Response) error {
	buf := x.p.buffers.get()
	defer x.p.buffers.put(buf)
	buf.room(relayChunk)
	held, readErr := firstPart(body, buf.b[:0:relayChunk], isStream(res) || isBinary(res))
	if readErr != nil && readErr != io.EOF {
		return x.upstreamFailed(w, readErr)
	}
	if readErr == io.EOF && len(held) == 0 {
		return x.nonsense("The upstream's answer is empty.")
	}
	x.ready = x.p.now()
	length := res.ContentLength
	if readErr == io.EOF {
		length = int64(len(held))
	}
	x.responseHeaders(res)
	if length >= 0 {
		x.set(x.w.Header(), "Content-Length", strconv.FormatInt(length, 10))
	}
	x.status, x.billable = res.StatusCode, true
	x.w.WriteHeader(res.StatusCode)

	find := x.usageFinder()
	find.off, find.meta, find.ids = isBinary(res), x.endpoint == rerank, x.endpoint == responses
	var total int64
	for {
		_, _ = find.Write(held) // it takes everything
		total += int64(len(held))
		x.usage = find.usage
		x.output = x.made(total)
		if find.id != "" {
			x.remember(find.id)
			find.id = ""
		}
		if readErr == io.EOF || total == length {
			x.settle()
		}
		if err := x.send(held); err != nil {
			x.left(err)
			return nil
		}
		if readErr != nil {
			break
		}
		var n int
		n, readErr = body.Read(held[:cap(held)])
		held = held[:n]
	}
	if readErr != io.EOF {
		x.failed(explain(w.ctx, readErr))
		x.abort = true
	}
	return nil
}

// isStream reports whether an answer is an event stream.
func isStream(res *http.Response) bool { return mediaType(res) == "text/event-stream" }

// untyped reports whether an upstream did not say what its answer is: many a
// server of events leaves the type out, or to a library that guesses it.
func untyped(res *http.Response) bool {
	t := mediaType(res)
	return t == "" || t == "text/plain"
}

// mediaType returns the type of an answer without its parameters.
func mediaType(res *http.Response) string {
	t, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// firstPart reads until buf is full or the source ends, which is io.EOF; from
// something live it takes what comes first.
func firstPart(r io.Reader, buf []byte, live bool) ([]byte, error) {
	for len(buf) < cap(buf) {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil || (live && n > 0) {
			return buf, err
		}
	}
	return buf, nil
}

// left notes that the client does not take its answer any more.
func (x *exchange) left(err error) {
	x.outcome, x.cause, x.abort = clientGone, err, true
}

// send writes to the client at once. The one write has a deadline; the whole
// has none.
func (x *exchange) send(b []byte) error {
	if len(b) > 0 {
		// An error means that this writer has no deadlines (a test's recorder).
		deadline := x.rc.SetWriteDeadline(time.Now().Add(x.p.writeTimeout)) == nil
		if deadline {
			defer x.unsetDeadline()
		}
		if _, err := x.w.Write(b); err != nil {
			return err
		}
	}
	if err := x.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// unsetDeadline takes the deadline off again: the connection outlives the request.
func (x *exchange) unsetDeadline() { _ = x.rc.SetWriteDeadline(time.Time{}) }
