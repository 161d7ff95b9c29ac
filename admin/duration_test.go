package admin

import (
	"strings"
	"testing"
	"time"
)

func TestLifetimeEndsExactlyAtCreationPlusDuration(t *testing.T) {
	at := func(s string) time.Time {
		t.Helper()
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct{ name, from, lifetime, want string }{
		{"seconds", "2026-10-02T12:00:00.123456Z", "30s", "2026-10-02T12:00:30.123456Z"},
		{"minutes", "2026-10-02T12:00:00Z", "15m", "2026-10-02T12:15:00Z"},
		{"hours over midnight", "2026-10-02T23:00:00Z", "12h", "2026-10-03T11:00:00Z"},
		{"days over a month's end", "2026-10-02T12:00:00Z", "30d", "2026-11-01T12:00:00Z"},
		{"days ignore summer time of the caller", "2026-10-24T12:00:00+02:00", "2d", "2026-10-26T10:00:00Z"},
		{"week", "2026-12-28T00:00:00Z", "1w", "2027-01-04T00:00:00Z"},
		{"month keeps the day", "2026-10-15T08:30:00Z", "1mo", "2026-11-15T08:30:00Z"},
		{"month falls on the last day of a shorter one", "2026-01-31T08:30:00.5Z", "1mo", "2026-02-28T08:30:00.5Z"},
		{"month in a leap year", "2028-01-31T08:30:00Z", "1mo", "2028-02-29T08:30:00Z"},
		{"months over a year's end", "2026-12-31T00:00:00Z", "2mo", "2027-02-28T00:00:00Z"},
		{"day is taken in UTC", "2026-02-01T00:30:00+02:00", "1mo", "2026-02-28T22:30:00Z"},
		{"twelve months from a leap day", "2028-02-29T00:00:00Z", "12mo", "2029-02-28T00:00:00Z"},
		{"longest", "2026-01-01T00:00:00Z", "1200mo", "2126-01-01T00:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := ParseLifetime(tt.lifetime)
			if err != nil {
				t.Fatal(err)
			}
			got := l.From(at(tt.from))
			if !got.Equal(at(tt.want)) || got.Location() != time.UTC {
				t.Errorf("%s + %s = %v, want %s", tt.from, tt.lifetime, got, tt.want)
			}
		})
	}
}

func TestMinusOneIsForEver(t *testing.T) {
	l, err := ParseLifetime("-1")
	if err != nil || !l.Forever() || !l.From(time.Now()).IsZero() || l.String() != "-1" {
		t.Errorf("-1: %v %v", l, err)
	}
}

func TestOtherLifetimesAreRefused(t *testing.T) {
	for _, s := range []string{"", "0s", "0mo", "-2", "-30d", "+1d", "1", "d", "1 d", " 1d", "1d ", "1D", "1M", "1y", "1.5h", "1h30m", "1e3s",
		"٣d", "9223372036854775807s", "99999999999999999999d", "1201mo", "36501d", "mo", "-1d", "1\x00d", strings.Repeat("9", 5000) + "d"} {
		if l, err := ParseLifetime(s); err == nil {
			t.Errorf("%q was read as %v", s, l)
		} else if len(err.Error()) > 300 {
			t.Errorf("%.20q…: error of %d bytes", s, len(err.Error()))
		}
	}
}

func FuzzParseLifetime(f *testing.F) {
	for _, s := range []string{"30s", "15m", "12h", "30d", "1w", "1mo", "-1", "1200mo", "0s", "٣d", "99999999999999999999d"} {
		f.Add(s, int64(1790942400))
	}
	f.Fuzz(func(t *testing.T, s string, sec int64) {
		l, err := ParseLifetime(s)
		if err != nil {
			return
		}
		if l.String() != s {
			t.Errorf("%q is written back as %q", s, l)
		}
		from := time.Unix(sec%(1<<33), 0)
		end := l.From(from)
		if l.Forever() {
			if s != "-1" || !end.IsZero() {
				t.Errorf("%q never ends", s)
			}
			return
		}
		if !end.After(from) || end.Sub(from) > maxLifetime+26*24*time.Hour {
			t.Errorf("%v + %q = %v", from, s, end)
		}
	})
}
