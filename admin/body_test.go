package admin

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sluice/fsm"
)

// A body is taken only if every JSON reader would see the same members in it.
func FuzzParseObject(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"a":1}`, `{"a":1,"a":2}`, `{"a":{"b":[1,2]}}x`, `[]`, `{"a":NaN}`, `{"\u0061":1,"a":2}`, `{"a":1`, "\x00", `{"a":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseObject(b)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		var want map[string]json.RawMessage
		if len(got) > 0 && (json.Unmarshal(b, &want) != nil || len(want) != len(got)) {
			t.Fatalf("%q was read as %v", b, got)
		}
		for _, kinds := range []map[string]kind{keyKinds, keyExtras, teamKinds, teamExtras} {
			if _, err := got.pick(kinds); err != nil {
				var e *Error
				if !errors.As(err, &e) || e.Status != 400 && e.Status != 422 {
					t.Fatalf("%q: %v", b, err)
				}
			}
		}
	})
}

// Whatever value a documented member has, it is kept or refused, never a panic,
// and what is kept fits the record.
func FuzzMembers(f *testing.F) {
	for name := range keyKinds {
		for _, v := range []string{`null`, `1`, `-1`, `1.5`, `1e400`, `"30d"`, `""`, `[]`, `["a"]`, `{}`, `{"m":1}`, `true`, `{"model_rpm_limit":{"m":1}}`} {
			f.Add(name, v)
		}
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if !json.Valid([]byte(value)) {
			return
		}
		body := fields{name: json.RawMessage(value)}
		set, err := body.pick(keyKinds)
		if err == nil {
			err = set.liftModelLimits()
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Status != 400 && e.Status != 422) {
			t.Fatalf("%s=%s: %v", name, value, err)
		}
		if err != nil {
			return
		}
		delete(set, "duration")
		if _, err := newRecord[fsm.Key](set); err != nil {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	})
}

func TestWhatLiesInABodyIsCheckedAtEveryDepth(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for body, want := range map[string]string{
		`{"metadata":{"priority":"dev","priority":"prod"}}`:                      "metadata holds priority twice.",
		`{"config":{"models":[{"name":"a","rpm":1,"rp\u006d":2}]}}`:              "config holds rpm twice.",
		`{"metadata":{"a":[{"b":1},{"b":2}],"c":{"a":{"b":1}},"d":1}}`:           "",
		`{"metadata":{"A":1,"a":2}}`:                                             "",
		`{"metadata":` + deep(maxNesting) + `}`:                                  "",
		`{"metadata":` + deep(maxNesting+1) + `}`:                                "metadata is nested deeper than 100 levels.",
		`{"tags":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`: "tags is nested deeper than 100 levels.",
	} {
		_, err := parseObject([]byte(body))
		var e *Error
		if errors.As(err, &e); (err == nil) != (want == "") || err != nil && (e.Message != want || e.Status != 400) {
			t.Errorf("%.80s: %v, want %q", body, err, want)
		}
	}
}

func TestScrubHidesSecrets(t *testing.T) {
	for in, want := range map[string]string{
		`unknown field "sk-abc"`: `unknown field "sk-****"`, `sk-a sk-b`: `sk-**** sk-****`, `none`: `none`, `sk-`: `sk-****`,
	} {
		if got := scrub(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
