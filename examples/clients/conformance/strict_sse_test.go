package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadEvents(t *testing.T) {
	for _, tt := range []struct {
		name, stream, want string
		malformed          bool
	}{
		{"plain", "data: a\n\ndata: b\n\n", "[{ a} { b}]", false},
		{"names", "event: x\ndata: a\n\ndata: b\n\n", "[{x a} { b}]", false},
		{"CRLF, and no space", "data:a\r\n\r\ndata:b\r\r", "[{ a} { b}]", false},
		{"several lines", "data: a\ndata\ndata: b\n\n", "[{ a\n\nb}]", false},
		{"comments", ": c\n\ndata: a\n: c\n\n:\n", "[{ a}]", false},
		{"id and retry", "id: 1\nretry: 5\ndata: a\n\n", "[{ a}]", false},
		{"many blank lines", "\n\n\ndata: a\n\n\n\n", "[{ a}]", false},
		{"empty data is an event", "data\n\n", "[{ }]", false},
		{"an event without data", "id: 1\n\n", "[]", true},
		{"an unknown field", "dta: a\n\n", "[]", true},
		{"no blank line at the end", "data: a\n\ndata: b\n", "[{ a}]", true},
		{"half a line at the end", "data: a\n\ndata: {\"b", "[{ a}]", true},
		{"no UTF-8", "data: \xff\n\n", "[]", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := []sseEvent{}
			err := readEvents(iotest.OneByteReader(strings.NewReader(tt.stream)), func(e sseEvent) error {
				got = append(got, e)
				return nil
			})
			if fmt.Sprint(got) != tt.want || errors.Is(err, errMalformed) != tt.malformed || err != nil && !tt.malformed {
				t.Errorf("events %v, error %v", got, err)
			}
		})
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("event: x\r\ndata: a\n\n", "data: b\n\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		// However the bytes are cut, the events are the same.
		read := func(r *strings.Reader, one bool) string {
			var got []sseEvent
			each := func(e sseEvent) error { got = append(got, e); return nil }
			if one {
				return fmt.Sprint(readEvents(iotest.OneByteReader(r), each) != nil, got)
			}
			return fmt.Sprint(readEvents(r, each) != nil, got)
		}
		if x, y := read(strings.NewReader(a+b), false), read(strings.NewReader(a+b), true); x != y {
			t.Errorf("%s, cut differently %s", x, y)
		}
	})
}
