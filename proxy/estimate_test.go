package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

func TestInputIsEstimatedFromTheText(t *testing.T) {
	words := strings.Repeat("word ", 800) // 4000 bytes
	for _, c := range []struct {
		name     string
		body     string
		from, to int64
	}{
		{"an empty object", `{}`, 1, 8},
		{"a short chat", `{"model":"m","messages":[{"role":"user","content":"Hello world!"}]}`, 8, 20},
		{"text", `{"messages":[{"role":"user","content":"` + words + `"}]}`, 1000, 1020},
		{"tools and the system prompt count", `{"tools":[{"type":"function","function":{"description":"` + words + `"}}],"messages":[{"role":"system","content":"` + words + `"}]}`, 2000, 2040},
		{"an image by its bytes", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}}]}]}`, 1600, 1640},
		{"a sound", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("A", 1<<20) + `","format":"wav"}}]}]}`, 1600, 1640},
		{"a document", `{"input":[{"type":"input_file","file_data":"data:application/pdf;base64,` + strings.Repeat("A", 1<<20) + `"}]}`, 1600, 1640},
		{"an image in an array", `{"input":["data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"]}`, 1600, 1640},
		{"encoded bytes in a block nobody knows", `{"messages":[{"content":[{"type":"hologram","blob":"` + strings.Repeat("aB3\\/", 1<<18) + `"}]}]}`, 1600, 1640},
		{"encoded bytes in lines", `{"messages":[{"content":[{"type":"hologram","blob":"` + strings.Repeat("aB3+\\n", 1<<18) + `"}]}]}`, 1600, 1640},
		{"text that begins like a data URL", `{"messages":[{"role":"user","content":"data: ` + words + words + words + `"}]}`, 3000, 3040},
		{"text in a member called data", `{"tools":[{"data":"` + words + words + words + `"}]}`, 3000, 3040},
		{"text without a space", `{"messages":[{"role":"user","content":[{"type":"text","text":"data:` + strings.Repeat("A", 12000) + `"}]}]}`, 3000, 3040},
		{"an image by its address", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`, 15, 40},
		{"tokens", `{"input":[1,22,333,-4,5e3]}`, 5, 10},
		{"escapes", `{"input":"\"\\\"{[123456789]}\""}`, 5, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n := inputTokens([]byte(c.body)); n < c.from || n > c.to {
				t.Errorf("%d tokens, want %d to %d", n, c.from, c.to)
			}
		})
	}
}

func FuzzInputTokens(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":"b"}`, `{"data":"x","n":[1,2]}`, `"`, `"\`, `{"a`, `{"a" :"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := inputTokens(data); n < 1 || n > 1+objectTokens*int64(len(data)) {
			t.Errorf("%d tokens for %d bytes", n, len(data))
		}
	})
}

func TestLearnedLengths(t *testing.T) {
	var l learned
	h := habit{"k", "m"}
	for i := range fewLengths {
		if _, known := l.p95(h); known {
			t.Fatalf("known after %d answers", i)
		}
		l.add(h, 100)
	}
	for _, c := range []struct {
		name     string
		add      func(i int) int64
		n        int
		from, to int64
	}{
		{"all alike", func(int) int64 { return 100 }, 100, 100, 120},
		{"one in fifty is long", func(i int) int64 { return 100 + int64(i%50/49)*9000 }, 1000, 100, 120},
		{"one in ten is long", func(i int) int64 { return 100 + int64(i%10/9)*900 }, 1000, 1000, 1200},
		{"they grow shorter", func(int) int64 { return 7 }, 3000, 7, 9},
		{"beyond any answer", func(int) int64 { return maxTokens }, 3000, 1 << 20, 1 << 40},
		{"nothing", func(int) int64 { return 0 }, 3000, 0, 1},
	} {
		for i := range c.n {
			l.add(h, c.add(i))
		}
		if n, known := l.p95(h); !known || n < c.from || n > c.to {
			t.Errorf("%s: %d, want %d to %d", c.name, n, c.from, c.to)
		}
	}
	for i := range maxHabits + 100 {
		l.add(habit{"k", fmt.Sprint(i)}, 1)
	}
	if len(l.all) > maxHabits {
		t.Errorf("%d habits are kept", len(l.all))
	}
}

func TestTicketsCarryAnEstimateWhereTokensAreReserved(t *testing.T) {
	for _, c := range []struct {
		name, path, fields string
		output             int64
	}{
		{"nothing is declared", "/v1/chat/completions", ``, defaultOutput},
		{"a cap", "/v1/chat/completions", `,"max_tokens":50`, 50},
		{"the largest of several caps", "/v1/chat/completions", `,"max_tokens":50,"max_completion_tokens":70,"max_output_tokens":60`, 70},
		{"times n", "/v1/chat/completions", `,"max_tokens":50,"n":3`, 150},
		{"a cap beyond what answers are", "/v1/chat/completions", `,"max_tokens":1000000,"n":2`, 2 * defaultOutput},
		{"a cap of nothing", "/v1/chat/completions", `,"max_tokens":0`, 0},
		{"null is no cap", "/v1/chat/completions", `,"max_tokens":null`, defaultOutput},
		{"numbers beyond all measure", "/v1/chat/completions", `,"max_tokens":1e15,"n":1e15`, maxTokens},
		{"embeddings", "/v1/embeddings", `,"input":"x"`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := mocked()
			cfg.Limits.TokenAccounting = fsm.AccountReserved
			r := newRig(t, cfg, nil)
			r.post(c.path, `{"model":"m","messages":[{"role":"user","content":"hi"}]`+c.fields+`}`)
			e := r.gate.tickets[0].Estimate
			if e.Output != c.output || e.Input < 5 || e.Input > 30 {
				t.Errorf("the estimate is %+v, want %d of output", e, c.output)
			}
		})
	}
	r := newRig(t, mocked(), nil)
	r.post("/v1/chat/completions", `{"model":"m","messages":[]}`)
	if e := r.gate.tickets[0].Estimate; e != (limiter.Usage{}) {
		t.Errorf("tokens are recorded, but the estimate is %+v", e)
	}
}

func TestEstimatesLearnHowLongAnswersAre(t *testing.T) {
	cfg := mocked() // answers with 20 tokens
	cfg.Limits.TokenAccounting = fsm.AccountReserved
	r := newRig(t, cfg, nil)
	for range fewLengths + 1 {
		r.post("/v1/chat/completions", `{"model":"m","messages":[]}`)
	}
	if e := r.gate.tickets[fewLengths].Estimate; e.Output < 20 || e.Output > 24 {
		t.Errorf("after %d answers of 20 tokens the estimate is %+v", fewLengths, e)
	}
}

func TestOversizeRequestIsABadRequest(t *testing.T) {
	cfg := mocked()
	cfg.Limits.TokenAccounting = fsm.AccountReserved
	r := newRig(t, cfg, nil)
	r.gate.admit = func(tk limiter.Ticket) error {
		return &limiter.Refusal{Ticket: tk, Scope: limiter.ScopeModel, Dimension: limiter.Tokens, Oversize: true, Need: 150, Limits: limiter.Limits{Tokens: limiter.Of(100)}}
	}
	a := r.post("/v1/chat/completions", `{"model":"m","messages":[]}`)
	wantError(t, a, http.StatusBadRequest, typeInvalid, "about 150 tokens")
	if a.Header.Get("Retry-After") != "" {
		t.Error("it is told to try again")
	}
	for _, c := range []struct{ name, path, fields, want string }{
		{"nothing was declared", "/v1/chat/completions", "", "Set max_tokens, of which none was sent"},
		{"too much was declared", "/v1/chat/completions", `,"max_tokens":150`, "Lower max_tokens"},
		{"there is no output", "/v1/embeddings", "", "Shorten the input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, r.post(c.path, `{"model":"m","messages":[]`+c.fields+`}`), http.StatusBadRequest, typeInvalid, "per window. "+c.want)
		})
	}
}
