package proxy

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterInEveryForm(t *testing.T) {
	now := time.Date(2026, 9, 11, 6, 27, 29, 0, time.UTC)
	for _, c := range []struct {
		name    string
		ms, sec []string
		want    time.Duration
		asked   bool
	}{
		{"seconds", nil, []string{"2"}, 2 * time.Second, true},
		{"nothing to wait for", nil, []string{"0"}, 0, true},
		{"negative", nil, []string{"-1"}, 0, false},
		{"a fraction", nil, []string{"1.5"}, 1500 * time.Millisecond, true},
		{"a date to come", nil, []string{"Fri, 11 Sep 2026 06:27:39 GMT"}, 10 * time.Second, true},
		{"a date in the past", nil, []string{"Fri, 11 Sep 2026 06:00:00 GMT"}, 0, true},
		{"a date of another century", nil, []string{"Fri, 11 Sep 2426 06:00:00 GMT"}, maxAsked, true},
		{"milliseconds", []string{"1500"}, nil, 1500 * time.Millisecond, true},
		{"milliseconds go first", []string{"20"}, []string{"3"}, 20 * time.Millisecond, true},
		{"empty milliseconds hide nothing", []string{""}, []string{"3"}, 3 * time.Second, true},
		{"unreadable milliseconds hide nothing", []string{"soon"}, []string{"3"}, 3 * time.Second, true},
		{"days", nil, []string{"277403"}, 277403 * time.Second, true},
		{"beyond any number", nil, []string{"99999999999999999999999999"}, maxAsked, true},
		{"none", nil, nil, 0, false},
		{"empty", nil, []string{""}, 0, false},
		{"a word", nil, []string{"abc"}, 0, false},
		{"twice, the second readable", nil, []string{"x", "4"}, 4 * time.Second, true},
		{"what Go reads and HTTP does not", nil, []string{"0x10"}, 0, false},
		{"infinite", nil, []string{"Inf"}, 0, false},
		{"not a number", nil, []string{"NaN"}, 0, false},
		{"two points", nil, []string{"1.2.3"}, 0, false},
		{"a duration of Go's", nil, []string{"6m0s"}, 0, false},
		{"blanks", nil, []string{" 7 "}, 7 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			if c.ms != nil {
				h["Retry-After-Ms"] = c.ms
			}
			if c.sec != nil {
				h["Retry-After"] = c.sec
			}
			if got, asked := retryAfter(h, now); got != c.want || asked != c.asked {
				t.Errorf("%v, %v; want %v, %v", got, asked, c.want, c.asked)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"2", "1.5", "-1", "", ".", "1e3", "Fri, 11 Sep 2026 06:27:39 GMT", "99999999999999999999"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, ms, sec string) {
		d, asked := retryAfter(http.Header{"Retry-After-Ms": {ms}, "Retry-After": {sec}}, time.Unix(1e9, 0))
		if d < 0 || d > maxAsked || !asked && d != 0 {
			t.Errorf("%q %q: %v, %v", ms, sec, d, asked)
		}
	})
}
