package main

import (
	"strings"
	"testing"
)

func TestCompareFindsWhatDiffers(t *testing.T) {
	refused := &Failure{Kind: failedStatus, Status: 429, Type: "rate_limit_error", Message: "slow down", RetryAfter: "7"}
	with := func(change func(*Failure)) Result {
		f := *refused
		change(&f)
		return Result{Failure: &f}
	}
	for _, tt := range []struct {
		name      string
		want, got Result
		problem   string // "" for none
	}{
		{"the same", Result{Text: "a", Usage: &Usage{1, 2, 0}}, Result{Text: "a", Usage: &Usage{1, 2, 0}}, ""},
		{"another text", Result{Text: "a"}, Result{Text: "b"}, "text"},
		{"usage that nobody asked for", Result{Text: "a"}, Result{Text: "a", Usage: &Usage{1, 2, 0}}, "usage"},
		{"other usage", Result{Usage: &Usage{1, 2, 0}}, Result{Usage: &Usage{1, 3, 0}}, "usage"},
		{"a failure", Result{Text: "a"}, Result{Text: "a", Failure: refused}, "failure"},
		{"no failure", Result{Failure: refused}, Result{}, "failure"},
		{"arguments that mean the same", Result{Tools: []Tool{{"a", "f", `{"x":"\u00e9"}`}}}, Result{Tools: []Tool{{"a", "f", `{ "x": "é" }`}}}, ""},
		{"no arguments", Result{Tools: []Tool{{"a", "f", ""}}}, Result{Tools: []Tool{{"a", "f", "{}"}}}, ""},
		{"other arguments", Result{Tools: []Tool{{"a", "f", `{"x":1}`}}}, Result{Tools: []Tool{{"a", "f", `{"x":2}`}}}, "tools"},
		{"half of arguments", Result{Tools: []Tool{{"a", "f", `{"x":1}`}}}, Result{Tools: []Tool{{"a", "f", `{"x":`}}}, "tools"},
		{"a lost call", Result{Tools: []Tool{{"a", "f", ""}}}, Result{}, "tools"},
		{"the same failure", Result{Failure: refused}, with(func(f *Failure) { f.RequestID = "1" }), ""},
		{"another status", Result{Failure: refused}, with(func(f *Failure) { f.Status = 500 }), "failure"},
		{"another type", Result{Failure: refused}, with(func(f *Failure) { f.Type = "api_error" }), "failure"},
		{"other words", Result{Failure: refused}, with(func(f *Failure) { f.Message = "no" }), "failure"},
		{"another retry-after", Result{Failure: refused}, with(func(f *Failure) { f.RetryAfter = "8" }), "failure"},
		{"a library that choked", Result{Failure: &Failure{Kind: failedStream}}, with(func(f *Failure) { f.Kind = failedOther }), "failure"},
		{"any whole seconds", Result{Failure: &Failure{Kind: failedStatus, RetryAfter: "*"}}, with(func(f *Failure) { f.RetryAfter = "1.5" }), "failure"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems := strings.Join(compare(tt.want, tt.got), "; ")
			if (problems == "") != (tt.problem == "") || !strings.Contains(problems, tt.problem) {
				t.Errorf("problems %q, want %q", problems, tt.problem)
			}
		})
	}
}

func TestLedgerAddsUpSeries(t *testing.T) {
	l, err := readLedger(`# HELP sluice_tokens_total Tokens
sluice_tokens_total{estimated="false",kind="input",model="a",priority=""} 7
sluice_tokens_total{estimated="true",kind="input",model="b",priority=""} 1e+06
sluice_tokens_total{estimated="false",kind="output",model="a",priority=""} 5
sluice_tokens_total{estimated="false",kind="cached",model="a",priority=""} 2
sluice_inflight{model="a"} 1
sluice_inflight{model="b"} 2
other{kind="input"} 9
`)
	if want := (ledger{1_000_007, 5, 2, 3}); l != want || err != nil {
		t.Errorf("ledger %+v, %v; want %+v", l, err, want)
	}
	if _, err := readLedger("sluice_inflight{model=\"a\"} many\n"); err == nil {
		t.Error("a value that is no number is taken")
	}
}

// Names tell outcomes apart, and every part of sluice that a case waits for has
// a switch.
func TestTheTableIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range all() {
		if seen[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		seen[c.Name] = true
		if c.Needs != "" {
			if _, ok := abilities[c.Needs]; !ok {
				t.Errorf("%s needs %q, which through.go does not list", c.Name, c.Needs)
			}
		}
		if c.Translatable && c.Call.Do != doChat && c.Call.Do != doMessages {
			t.Errorf("%s is said to be translatable", c.Name)
		}
	}
}
