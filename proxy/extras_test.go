package proxy

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

func TestOwnFieldsDoNotGoUp(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"none", `{"model":"m", "x":1}`, `{"model":"m", "x":1}`},
		{"first", `{"fallbacks":["b"], "model":"m"}`, `{ "model":"m"}`},
		{"last", `{"model":"m" , "num_retries": 3 }`, `{"model":"m" }`},
		{"between", `{"a":1,"fallbacks":[],"b":2}`, `{"a":1,"b":2}`},
		{"both, side by side", `{"fallbacks":[],"num_retries":0,"b":2}`, `{"b":2}`},
		{"nothing else", `{"fallbacks":[]}`, `{}`},
		{"inside it is the client's", `{"a":{"fallbacks":[1]}}`, `{"a":{"fallbacks":[1]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(withoutOwn(nil, []byte(c.body))); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestOwnFieldsAreChecked(t *testing.T) {
	for _, c := range []struct{ body, param string }{
		{`{"fallbacks":"b"}`, "fallbacks"},
		{`{"fallbacks":[{"model":"b"}]}`, "fallbacks"},
		{`{"fallbacks":["1","2","3","4","5","6"]}`, "fallbacks"},
		{`{"fallbacks":[],"fallbacks":["b"]}`, "fallbacks"},
		{`{"Fallbacks":["b"]}`, "fallbacks"},
		{`{"fall\u0062acks":["b"]}`, "fallbacks"},
		{`{"num_retries":-1}`, "num_retries"},
		{`{"num_retries":1.5}`, "num_retries"},
	} {
		var e *Error
		if _, err := scan([]byte(c.body)); !errors.As(err, &e) || e.Status != 400 || e.Param != c.param {
			t.Errorf("%s: %v", c.body, err)
		}
	}
	f, err := scan([]byte(`{"fallbacks":["b","c"],"num_retries":2}`))
	if err != nil || !reflect.DeepEqual(f.fallbacks, []string{"b", "c"}) || f.retries != 2 || !f.own {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err = scan([]byte(`{"fallbacks":null,"num_retries":null}`)); err != nil || f.fallbacks != nil || f.retries != -1 || !f.own {
		t.Errorf("null: %+v, %v", f, err)
	}
}

// What is left is the object without these members, whatever else it holds.
func FuzzWithoutOwn(f *testing.F) {
	for _, s := range []string{`{"fallbacks":["b"], "model":"m"}`, `{"a":1 , "num_retries":1}`, `{}`, ` { "fallbacks" : [] } `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := scan(body); err != nil {
			return
		}
		out := withoutOwn(nil, body)
		left, err := scan(out)
		if err != nil || left.own {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil {
			return // invalid UTF-8 and the like
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		delete(before, "fallbacks")
		delete(before, "num_retries")
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%q became %q", body, out)
		}
	})
}
