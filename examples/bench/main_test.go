package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		only string
		want []string // nil: an error that names the parts
	}{
		{"", parts()},
		{"ledger", []string{"ledger"}},
		{"ledger, log", []string{"ledger", "log"}},
		{"nonsense", nil},
		{"ledger,nonsense", nil},
		{"ledger,", nil},
	} {
		t.Run(c.only, func(t *testing.T) {
			got, err := choose(c.only)
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), "ledger, log, ") {
					t.Errorf("choose says %v, want an error that names the parts", err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("choose returns %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func TestTheLastLineIsTheVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   []bool
		want string
	}{
		{"all met", []bool{true, true}, "2 of 2 targets met: all targets met"},
		{"one missed", []bool{true, false}, "1 of 2 targets met: 1 MISSED"},
		{"figures only", nil, "0 of 0 targets met: nothing was judged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := &report{out: &out}
			for _, ok := range c.ok {
				r.judge("a figure", "1", "2", ok)
			}
			if err := r.close(); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, c.want) {
				t.Errorf("the last line is %q, want %q", last, c.want)
			}
		})
	}
}
