package proxy

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sluice/limiter"
)

// callID returns the caller's x-litellm-call-id if it is fit to be shown and
// logged, else a new UUID.
func (p *Proxy) callID(h http.Header) string {
	if v := h["X-Litellm-Call-Id"]; len(v) == 1 && saneID(v[0]) {
		return v[0]
	}
	var b [16]byte
	a, c := p.rand(), p.rand()
	for i := range 8 {
		b[i], b[8+i] = byte(a>>(8*i)), byte(c>>(8*i))
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var text [36]byte
	at := 0
	for i, part := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		at += hex.Encode(text[at:], part)
	}
	return string(text[:])
}

// saneID reports whether a caller's id is short, plain and not a key in the
// wrong place.
func saneID(s string) bool {
	if s == "" || len(s) > 128 || strings.HasPrefix(s, "sk-") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.:/", rune(c)) {
			return false
		}
	}
	return true
}

// rateHeader is the pair of header names for one scope and dimension.
type rateHeader struct{ limit, remaining string }

// rateHeaders by scope, for requests and tokens, in canonical form.
var rateHeaders = func() (names [limiter.NumScopes][2]rateHeader) {
	for s := range names {
		for d := range names[s] {
			scope, dim := limiter.Scope(s).String(), limiter.Dimension(d).String()
			names[s][d] = rateHeader{
				limit:     http.CanonicalHeaderKey("x-ratelimit-" + scope + "-limit-" + dim),
				remaining: http.CanonicalHeaderKey("x-ratelimit-" + scope + "-remaining-" + dim),
			}
		}
	}
	return names
}()

// LineWriter is a ResponseWriter that takes header lines past its Header.
type LineWriter interface {
	http.ResponseWriter
	// Lines returns where they go, each with its line break, before the answer
	// begins; nil if they cannot. What is there already is from no one else.
	Lines() *[]byte
}

// showStandings puts the limits that hold for the request on the answer.
func (x *exchange) showStandings(standings *[limiter.NumScopes]limiter.Standing) {
	if w, ok := x.w.(LineWriter); ok {
		if lines := w.Lines(); lines != nil {
			*lines = (*lines)[:0]
			eachStanding(standings, func(name string, n int64) {
				*lines = strconv.AppendInt(append(append(*lines, name...), ": "...), n, 10)
				*lines = append(*lines, "\r\n"...)
			})
			return
		}
	}
	h := x.w.Header()
	eachStanding(standings, func(name string, n int64) { h[name] = []string{strconv.FormatInt(n, 10)} })
}

// eachStanding calls put with the name and value of every rate-limit header.
func eachStanding(standings *[limiter.NumScopes]limiter.Standing, put func(name string, n int64)) {
	for s := range standings {
		st := &standings[s]
		for d, bound := range [...]limiter.Limit{limiter.Requests: st.Limits.Requests, limiter.Tokens: st.Limits.Tokens} {
			n, ok := bound.Get()
			if !ok {
				continue
			}
			left, _ := st.Remaining(limiter.Dimension(d))
			put(rateHeaders[s][d].limit, n)
			put(rateHeaders[s][d].remaining, left)
		}
	}
}

// refused puts the facts of a refusal on the answer.
func (x *exchange) refused(r *limiter.Refusal) {
	h := x.w.Header()
	h["Retry-After"] = []string{strconv.FormatInt(r.RetryAfterSeconds(), 10)}
	h["rate_limit_type"] = []string{r.Dimension.String()}
	h["reset_at"] = []string{limiter.FormatReset(r.ResetAt)}
	h["X-Litellm-Saturation"] = []string{strconv.FormatFloat(r.Saturation*100, 'f', 2, 64) + "%"}
	x.set(h, "X-Sluice-Explain", explanation(r))
	x.showStandings(&r.Standings)
	model, priority := x.labels()
	x.p.metrics.limited.WithLabelValues(model, priority, r.Scope.String(), r.Dimension.String()).Inc()
}

// explanation is a refusal in one line for machines: the limit, what is used of
// it, when the request could fit, and where to see who holds it.
func explanation(r *limiter.Refusal) string {
	used, limit := r.Standings[r.Scope].Used, r.Limits.Requests
	n := used.Requests
	switch r.Dimension {
	case limiter.Tokens:
		n, limit = used.Tokens, r.Limits.Tokens
	case limiter.Parallel:
		n, limit = used.Parallel, r.Limits.Parallel
	}
	q := url.Values{"model": {r.Ticket.Model}}
	if r.Ticket.Key != "" {
		q.Set("key", r.Ticket.Key)
	}
	return r.Scope.String() + " " + r.Dimension.String() + "; used=" + strconv.FormatInt(n, 10) + "; limit=" + limit.String() +
		"; fits-in=" + strconv.FormatInt(r.RetryAfterSeconds(), 10) + "; see=/limits/explain?" + q.Encode()
}

// modelHeaders puts on the answer what is known of model, deployment, limits
// and time.
func (x *exchange) modelHeaders() {
	if x.model.Model == nil {
		return
	}
	h := x.w.Header()
	x.set(h, "X-Litellm-Model-Group", x.model.Group)
	priority := x.id.priority()
	if priority == "" {
		priority = "default"
	}
	x.set(h, "X-Litellm-Priority", priority)
	if x.target != nil {
		h["X-Litellm-Model-Id"] = x.target.idHeader
	}
	x.showAttempts(h)
	if x.receipt != nil {
		if d := x.receipt.Decision(); d != nil {
			x.showStandings(&d.Standings)
		}
	}
	now := x.p.now()
	overhead := now.Sub(x.start)
	if !x.sent.IsZero() {
		overhead = x.sent.Sub(x.start)
		if !x.ready.IsZero() {
			overhead += now.Sub(x.ready)
		}
		x.p.metrics.overhead.Observe(overhead.Seconds())
	}
	x.set(h, "X-Litellm-Overhead-Duration-Ms", milliseconds(overhead))
}

// showAttempts says how often the request was sent again, and to other models.
func (x *exchange) showAttempts(h http.Header) {
	h["X-Litellm-Attempted-Retries"], h["X-Litellm-Attempted-Fallbacks"] = none, none
	if retries := x.attempts - 1 - x.fallbacks; retries > 0 {
		h["X-Litellm-Attempted-Retries"] = []string{strconv.FormatInt(retries, 10)}
	}
	if x.fallbacks > 0 {
		h["X-Litellm-Attempted-Fallbacks"] = []string{strconv.FormatInt(x.fallbacks, 10)}
	}
}

var none = []string{"0"}

// set puts a header on the answer, with a value kept in the exchange as long as
// there is room. name is in canonical form.
func (x *exchange) set(h http.Header, name, value string) {
	if x.kept == len(x.values) {
		h[name] = []string{value}
		return
	}
	at := x.kept
	x.values[at] = value
	x.kept++
	h[name] = x.values[at : at+1 : at+1]
}

// showMode puts on the answer how exact the limits are for this request.
func (x *exchange) showMode(mode string) {
	if mode != x.mode {
		x.mode = mode
		x.set(x.w.Header(), "X-Sluice-Limits", mode)
	}
}
