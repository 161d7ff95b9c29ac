package proxy

import (
	"net/http"
	"strings"
	"time"

	"sluice/fsm"
)

// class says what another attempt could do about a fault.
type class uint8

const (
	final   class = iota // nothing: the request is at fault, or nobody waits for it
	foreign              // elsewhere only: this deployment will answer the same again
	passing              // elsewhere, or here after a while
)

// classOf judges the status of an upstream's refusal.
func classOf(status int) class {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, statusOverloaded:
		return passing
	case http.StatusUnauthorized: // the credential is the deployment's
		return foreign
	}
	return final
}

// statusOverloaded is Anthropic's.
const statusOverloaded = 529

// classOfReason judges a call that gave no answer.
func classOfReason(reason string) class {
	switch reason {
	case clientGone, shuttingDown:
		return final
	case "protocol":
		return foreign
	}
	return passing
}

// situation is what the decision about another attempt depends on.
type situation struct {
	class    class
	forbid   bool          // x-should-retry: false
	made     int64         // attempts so far, at any model
	bound    int64         // attempts that the request may have made when this model gives up
	other    bool          // another deployment is free
	fallback bool          // another model is left
	waits    int64         // waits so far
	before   time.Duration // the last of them
	floor    time.Duration // until the provider wants to be asked again, and a deployment is free
	deadline bool
	left     time.Duration // until the deadline
}

// move is what follows a fault.
type move uint8

const (
	giveUp    move = iota
	elsewhere      // at once, by another deployment
	again          // after the wait, by any
)

// decide says what follows a fault, and after how long; a and b are uniform.
func decide(r *fsm.RetrySettings, s situation, a, b uint64) (move, time.Duration) {
	late := s.deadline && s.left <= 0
	if s.class == final || s.forbid || s.made >= s.bound || late {
		return giveUp, 0
	}
	if s.other {
		return elsewhere, 0
	}
	// Another model is there at once; a provider's pause is for those who have none.
	if s.class == foreign || s.floor > r.MaxRetryAfter || s.floor > 0 && s.fallback {
		return giveUp, 0
	}
	wait := delay(r, s.waits, s.before, s.floor, a, b)
	if s.deadline && wait >= s.left {
		return giveUp, 0
	}
	return again, wait
}

// timeout returns what a client gives its request, from x-litellm-timeout in
// seconds.
func timeout(h http.Header) (time.Duration, bool) {
	v := h["X-Litellm-Timeout"]
	if len(v) != 1 {
		return 0, false
	}
	return decimal(v[0], time.Second)
}

// declaredRetries returns what a client wants of retries, from its body or
// x-litellm-num-retries; -1 for nothing.
func declaredRetries(f *fields, h http.Header) int64 {
	if f.retries >= 0 {
		return f.retries
	}
	if v := h["X-Litellm-Num-Retries"]; len(v) == 1 {
		if n, ok := count([]byte(strings.TrimSpace(v[0]))); ok {
			return n
		}
	}
	return -1
}
