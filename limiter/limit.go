package limiter

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Time is a reading of the ledger clock in nanoseconds. It only moves forward,
// is the same on all nodes for one log entry, and has no relation to the wall
// clock. The zero Time is the moment the cluster was formed.
type Time int64

// Add returns t moved by d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns the duration from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// A Limit is a bound that may be absent. The zero Limit is "no limit here";
// Of(0) is a limit of nothing, which blocks. JSON and TOML spell absence as
// null or as a missing key.
type Limit struct {
	n   int64
	set bool
}

// Of returns a limit of n, which must not be negative.
func Of(n int64) Limit { return Limit{n: max(n, 0), set: true} }

// Get returns the bound and whether there is one.
func (l Limit) Get() (int64, bool) { return l.n, l.set }

// IsSet reports whether there is a bound.
func (l Limit) IsSet() bool { return l.set }

// IsZero reports whether the limit is absent, so that `json:",omitzero"` drops it.
func (l Limit) IsZero() bool { return !l.set }

// String returns the number, or "none".
func (l Limit) String() string {
	if !l.set {
		return "none"
	}
	return strconv.FormatInt(l.n, 10)
}

// MarshalJSON writes the number or null.
func (l Limit) MarshalJSON() ([]byte, error) {
	if !l.set {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, l.n, 10), nil
}

// UnmarshalJSON reads a whole number ≥ 0 (60, 60.0 and 6e1 alike) or null.
// Anything else is an error that quotes the value.
func (l *Limit) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if bytes.Equal(b, []byte("null")) {
		*l = Limit{}
		return nil
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(string(b), 64)
		if ferr != nil || f != float64(int64(f)) || f > 1<<53 {
			return fmt.Errorf("limit %s is not a whole number", b)
		}
		n = int64(f)
	}
	if n < 0 {
		return fmt.Errorf("limit %d is negative; leave it out or send null for no limit", n)
	}
	*l = Of(n)
	return nil
}

// Limits bound one scope. Requests and Tokens are per window, Parallel is a
// number of requests in flight over all nodes.
type Limits struct {
	Requests Limit
	Tokens   Limit
	Parallel Limit
}

// Any reports whether at least one bound is set.
func (l Limits) Any() bool { return l.Requests.set || l.Tokens.set || l.Parallel.set }

// Dimension is what a limit counts.
type Dimension uint8

// The dimensions, named as the header rate_limit_type shows them.
const (
	Requests Dimension = iota
	Tokens
	Parallel
)

// String returns the name that clients see.
func (d Dimension) String() string {
	switch d {
	case Requests:
		return "requests"
	case Tokens:
		return "tokens"
	case Parallel:
		return "max_parallel_requests"
	}
	return "unknown"
}
