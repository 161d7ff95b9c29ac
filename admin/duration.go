package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxLifetime bounds a lifetime so that every expiry is a date that JSON can
// write and a time.Duration can hold.
const maxLifetime = 100 * 365 * 24 * time.Hour

// A Lifetime is how long a key lives. The zero Lifetime is for ever.
type Lifetime struct {
	fixed  time.Duration // 0 if counted in months
	months int
	text   string
}

// ParseLifetime reads 30s, 15m, 12h, 30d, 1w, 1mo, or -1 for never. Anything
// else, zero and more than a hundred years included, is an error that says what
// is accepted.
func ParseLifetime(s string) (Lifetime, error) {
	if s == "-1" {
		return Lifetime{}, nil
	}
	digits := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 {
		return Lifetime{}, badLifetime(s)
	}
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil || n < 1 {
		return Lifetime{}, badLifetime(s)
	}
	unit := s[digits:]
	if unit == "mo" {
		if n > 100*12 {
			return Lifetime{}, fmt.Errorf("duration %s is over 100 years; use -1 for a key that never expires", clip(s))
		}
		return Lifetime{months: int(n), text: s}, nil
	}
	one, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[unit]
	if !ok {
		return Lifetime{}, badLifetime(s)
	}
	if n > int64(maxLifetime/one) {
		return Lifetime{}, fmt.Errorf("duration %s is over 100 years; use -1 for a key that never expires", clip(s))
	}
	return Lifetime{fixed: time.Duration(n) * one, text: s}, nil
}

func badLifetime(s string) error {
	return fmt.Errorf("duration %q is not understood; use 30s, 15m, 12h, 30d, 1w or 1mo, or -1 for never", clip(s))
}

// Forever reports whether the lifetime has no end.
func (l Lifetime) Forever() bool { return l.fixed == 0 && l.months == 0 }

// String returns the lifetime as it was written, "-1" for never.
func (l Lifetime) String() string {
	if l.Forever() {
		return "-1"
	}
	return l.text
}

// From returns when a lifetime that begins at t ends, in UTC; the zero Time if
// never. A month ends on the same day of the month it leads to, or on that
// month's last day if it is shorter.
func (l Lifetime) From(t time.Time) time.Time {
	if l.Forever() {
		return time.Time{}
	}
	t = t.UTC()
	if l.months == 0 {
		return t.Add(l.fixed)
	}
	first := time.Date(t.Year(), t.Month()+time.Month(l.months), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	lastDay := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), lastDay)-1)
}

// clip shortens what a caller sent before it is quoted back or logged. A value
// with a secret's prefix is not repeated: it was put into the wrong place.
func clip(s string) string {
	const most = 60
	if strings.HasPrefix(strings.TrimLeft(s, " "), secretPrefix) {
		return secretPrefix + "****"
	}
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
