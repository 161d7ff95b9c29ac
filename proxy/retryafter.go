package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxAsked bounds what a provider may ask for; what is beyond it says no more.
const maxAsked = 366 * 24 * time.Hour

// retryAfter returns how long a provider asks its callers to wait, and whether
// it does: retry-after-ms goes first, then Retry-After in seconds, which may
// have a fraction, then as a date. What cannot be read counts as absent; a date
// in the past is no wait.
func retryAfter(h http.Header, now time.Time) (wait time.Duration, asked bool) {
	for _, v := range h["Retry-After-Ms"] {
		if d, ok := decimal(v, time.Millisecond); ok {
			return d, true
		}
	}
	for _, v := range h["Retry-After"] {
		if d, ok := decimal(v, time.Second); ok {
			return d, true
		}
		if at, err := http.ParseTime(strings.TrimSpace(v)); err == nil {
			return min(max(at.Sub(now), 0), maxAsked), true
		}
	}
	return 0, false
}

// decimal reads digits, with a fraction or not, as so many units.
func decimal(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	digits, point := 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && !point:
			point = true
		default:
			return 0, false
		}
	}
	if digits == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n >= float64(maxAsked/unit) {
		return maxAsked, true // digits only: it can but be too large
	}
	return time.Duration(n * float64(unit)), true
}

// mayRetry reports whether an upstream leaves it to its caller to ask again.
func mayRetry(h http.Header) bool {
	v := h["X-Should-Retry"]
	return len(v) == 0 || !strings.EqualFold(strings.TrimSpace(v[0]), "false")
}
