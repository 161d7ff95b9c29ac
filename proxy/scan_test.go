package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestScanRefusesNamingTheField(t *testing.T) {
	for _, c := range []struct{ name, body, param string }{
		{"empty", "", ""},
		{"blank", " \n", ""},
		{"no JSON", "hello", ""},
		{"array", `["model"]`, ""},
		{"string", `"model"`, ""},
		{"cut", `{"model":"m"`, ""},
		{"two values", `{"model":"m"}{}`, ""},
		{"trailing comma", `{"model":"m",}`, ""},
		{"raw control character", "{\"model\":\"m\n\"}", ""},
		{"bad escape in a value", `{"model":"m","x":"\q"}`, ""},
		{"leading zero", `{"model":"m","x":01}`, ""},
		{"deep", `{"model":"m","x":` + strings.Repeat("[", 1002) + strings.Repeat("]", 1002) + `}`, ""},
		{"very deep and cut", `{"model":"m","x":` + strings.Repeat("[", 1<<20), ""},
		{"model is a number", `{"model":1}`, "model"},
		{"model is an object", `{"model":{}}`, "model"},
		{"model is not UTF-8", "{\"model\":\"\xff\"}", "model"},
		{"model twice", `{"model":"a","model":"b"}`, "model"},
		{"model in another case", `{"model":"a","Model":"b"}`, "model"},
		{"only another case", `{"MODEL":"a"}`, "model"},
		{"escaped model", `{"\u006dodel":"a"}`, "model"},
		{"escaped and plain", `{"model":"a","m\u006fdel":"b"}`, "model"},
		{"long s", `{"model":"a","ſtream":true}`, "stream"},
		{"escaped long s", `{"model":"a","\u017ftream":true}`, "stream"},
		{"stream is a string", `{"model":"a","stream":"true"}`, "stream"},
		{"stream is a number", `{"model":"a","stream":1}`, "stream"},
		{"stream twice", `{"model":"a","stream":true,"stream":false}`, "stream"},
		{"max_tokens twice", `{"model":"a","max_tokens":1,"max_tokens":2}`, "max_tokens"},
		{"Kelvin sign", `{"model":"a","max_toKens":1}`, "max_tokens"},
		{"negative", `{"model":"a","max_tokens":-5}`, "max_tokens"},
		{"fraction", `{"model":"a","max_completion_tokens":1.5}`, "max_completion_tokens"},
		{"number as a string", `{"model":"a","max_tokens":"100"}`, "max_tokens"},
		{"n is a list", `{"model":"a","n":[]}`, "n"},
		{"a list of models for a router behind the gateway", `{"model":"a","models":["b"]}`, "models"},
		{"the same in another case", `{"model":"a","Models":["b"]}`, "models"},
		{"user twice", `{"model":"a","user":"x","user":"y"}`, "user"},
		{"options are a list", `{"model":"a","stream_options":[]}`, "stream_options"},
		{"include_usage is a number", `{"model":"a","stream_options":{"include_usage":1}}`, "stream_options"},
		{"include_usage twice", `{"model":"a","stream_options":{"include_usage":true,"include_usage":false}}`, "stream_options"},
		{"include_usage in another case", `{"model":"a","stream_options":{"Include_Usage":true}}`, "stream_options"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := scan([]byte(c.body))
			var e *Error
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("got %v, want a 400", err)
			}
			if e.Param != c.param {
				t.Errorf("param %q, want %q (%s)", e.Param, c.param, e.Message)
			}
		})
	}
}

func TestScanAccepts(t *testing.T) {
	for _, c := range []struct {
		name, body, model string
		stream, asked     bool
	}{
		{"plain", `{"model":"m"}`, "m", false, false},
		{"no model", `{}`, "", false, false},
		{"null model", `{"model":null}`, "", false, false},
		{"white space", " {\r\n\t\"model\" : \"m\" , \"stream\" : true } \n", "m", true, false},
		{"stream null", `{"model":"m","stream":null}`, "m", false, false},
		{"asked", `{"stream_options":{"x":[{}],"include_usage":true},"stream":true,"model":"m"}`, "m", true, true},
		{"not asked", `{"stream":true,"stream_options":{"include_usage":false}}`, "", true, false},
		{"options null", `{"stream":true,"stream_options":null}`, "", true, false},
		{"escapes in the value", `{"model":"\u006d\"\\"}`, `m"\`, false, false},
		{"model below the top", `{"model":"m","messages":[{"model":"x","Model":1}]}`, "m", false, false},
		{"hostile numbers that can be meant", `{"model":"m","max_tokens":1e18,"n":9223372036854775807,"max_completion_tokens":60.0,"max_output_tokens":0}`, "m", false, false},
		{"nested to the bound", `{"model":"m","x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "m", false, false},
		{"a name that begins alike", `{"model":"m","models":1,"mode":2,"model_":3}`, "m", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := scan([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if f.model != c.model || f.stream != c.stream || f.asked != c.asked {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func TestRewriteTouchesOnlyWhatItMust(t *testing.T) {
	for _, c := range []struct {
		name, body, model string
		usage             bool
		want              string
	}{
		{"model", `{ "a":1.0, "model" : "m" ,"b":1e3}`, "x/y", false, `{ "a":1.0, "model" : "x/y" ,"b":1e3}`},
		{"model missing", `{ "a":1}`, "x", false, `{"model":"x", "a":1}`},
		{"model missing, empty", `{ }`, "x", false, `{"model":"x" }`},
		{"model null", `{"model":null}`, "x", false, `{"model":"x"}`},
		{"model needs escapes", `{"model":"m"}`, "a\"b\n", false, `{"model":"a\"b\u000a"}`},
		{"usage", `{"model":"m","stream":true}`, "", true, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{"usage and model missing", `{"stream":true}`, "x", true, `{"model":"x","stream_options":{"include_usage":true},"stream":true}`},
		{"options empty", `{"stream_options":{ },"model":"m"}`, "x", true, `{"stream_options":{"include_usage":true },"model":"x"}`},
		{"options with other things", `{"model":"m","stream_options":{"a":1}}`, "x", true, `{"model":"x","stream_options":{"include_usage":true,"a":1}}`},
		{"options null", `{"stream_options":null}`, "", true, `{"stream_options":{"include_usage":true}}`},
		{"include_usage false", `{"stream_options":{"include_usage": false }}`, "", true, `{"stream_options":{"include_usage": true }}`},
		{"white space and escapes stay", "{\"x\":\"\\u00e9 é <\u2028\",\n\"model\":\"m\"}\n", "y", false, "{\"x\":\"\\u00e9 é <\u2028\",\n\"model\":\"y\"}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := scan([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(f.rewrite(nil, []byte(c.body), c.model, c.usage)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","stream":true,"stream_options":{"include_usage":false},"n":2}`,
		`{"model":"a","Model":"b"}`, `{"\u006dodel":1}`, `{"a":[1,{"b":[]}],"c":-0.5e+3,"d":"\ud83d\ude00"}`,
		`{}`, `[]`, ` {"x" : "a\\" } `, `{"model":"m","x":"12345678\"1234567"}`, `{"ſtream":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var whole map[string]json.RawMessage
		valid := json.Unmarshal(body, &whole) == nil && whole != nil
		fields, err := scan(body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("scan returned %T", err)
			}
			if valid && e.Param == "" && !strings.Contains(e.Message, "nested") {
				t.Fatalf("refused valid JSON: %s", e.Message)
			}
			return
		}
		if !valid {
			t.Fatalf("accepted what is no JSON object: %q", body)
		}
		out := fields.rewrite(nil, body, "new/model", true)
		var after map[string]json.RawMessage
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("rewrote %q to %q: %v", body, out, err)
		}
		if string(after["model"]) != `"new/model"` || !bytes.Contains(after["stream_options"], []byte("true")) {
			t.Fatalf("rewrote %q to %q", body, out)
		}
		delete(whole, "model")
		delete(whole, "stream_options")
		delete(after, "model")
		delete(after, "stream_options")
		if !reflect.DeepEqual(whole, after) {
			t.Fatalf("rewrote %q to %q: other members changed", body, out)
		}
		if again, err := scan(out); err != nil || again.model != "new/model" || !again.asked {
			t.Fatalf("scan of the rewritten %q: %+v, %v", out, again, err)
		}
	})
}
