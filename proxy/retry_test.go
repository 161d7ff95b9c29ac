package proxy

import (
	"testing"
	"time"

	"sluice/fsm"
)

func TestWhatFollowsAFault(t *testing.T) {
	r := fsm.RetrySettings{Jitter: fsm.JitterNone}.Retries()
	fresh := situation{class: passing, made: 1, bound: 6}
	for _, c := range []struct {
		name   string
		change func(*situation)
		move   move
		wait   time.Duration
	}{
		{"a first failure waits", func(*situation) {}, again, time.Second},
		{"another deployment goes first, at once", func(s *situation) { s.other = true }, elsewhere, 0},
		{"the wait doubles", func(s *situation) { s.waits, s.made = 3, 4 }, again, 8 * time.Second},
		{"a request at fault", func(s *situation) { s.class, s.other = final, true }, giveUp, 0},
		{"a deployment at fault, alone", func(s *situation) { s.class = foreign }, giveUp, 0},
		{"a deployment at fault, with another", func(s *situation) { s.class, s.other = foreign, true }, elsewhere, 0},
		{"the bound is reached", func(s *situation) { s.made, s.other = 6, true }, giveUp, 0},
		{"the provider forbids it", func(s *situation) { s.forbid, s.other = true, true }, giveUp, 0},
		{"the provider's time is kept", func(s *situation) { s.floor = 20 * time.Second }, again, 20 * time.Second},
		{"the longest that is waited", func(s *situation) { s.floor = 120 * time.Second }, again, 120 * time.Second},
		{"the provider wants too much", func(s *situation) { s.floor = 120*time.Second + 1 }, giveUp, 0},
		{"another model goes before a provider's pause", func(s *situation) { s.floor, s.fallback = time.Second, true }, giveUp, 0},
		{"but not before a backoff", func(s *situation) { s.fallback = true }, again, time.Second},
		{"the client's time is over", func(s *situation) { s.deadline, s.other = true, true }, giveUp, 0},
		{"the wait would outlast it", func(s *situation) { s.deadline, s.left = true, time.Second }, giveUp, 0},
		{"the wait fits", func(s *situation) { s.deadline, s.left = true, 2*time.Second }, again, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fresh
			c.change(&s)
			if m, wait := decide(&r, s, 0, 0); m != c.move || wait != c.wait {
				t.Errorf("%v after %v, want %v after %v", m, wait, c.move, c.wait)
			}
		})
	}
}

func TestOnlySomeStatusesAreTriedAgain(t *testing.T) {
	want := map[int]class{401: foreign}
	for _, s := range []int{408, 409, 429, 500, 502, 503, 504, 529} {
		want[s] = passing
	}
	for s := 400; s < 600; s++ {
		if got := classOf(s); got != want[s] {
			t.Errorf("%d: %d, want %d", s, got, want[s])
		}
	}
}

func TestTroubleIsReadFromItsFixedPlaces(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   trouble
	}{
		{"OpenAI's prompt too long", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, contextWindow},
		{"Anthropic's prompt too long", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, contextWindow},
		{"vLLM's", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, contextWindow},
		{"as 413", 413, `{"error":{"message":"prompt is too long"}}`, contextWindow},
		{"OpenAI's policy", 400, `{"error":{"code":"content_policy_violation","message":"no"}}`, contentPolicy},
		{"Azure's filter", 400, `{"error":{"code":"content_filter","message":"The response was filtered"}}`, contentPolicy},
		{"a prompt that talks about it", 400, `{"error":{"message":"invalid value 'prompt is too long context_length_exceeded content_filter'"}}`, otherTrouble},
		{"another status", 500, `{"error":{"code":"context_length_exceeded"}}`, otherTrouble},
		{"a text as error", 400, `{"error":"context_length_exceeded"}`, otherTrouble},
		{"a number as code", 400, `{"error":{"code":400}}`, otherTrouble},
		{"no JSON", 400, `context_length_exceeded`, otherTrouble},
		{"nothing", 400, ``, otherTrouble},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := troubleOf(c.status, []byte(c.body)); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func FuzzTrouble(f *testing.F) {
	f.Add(400, []byte(`{"error":{"code":"content_filter"}}`))
	f.Add(400, []byte(`{"error":[1],"message":{}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if got := troubleOf(status, body); got != otherTrouble && status != 400 && status != 413 {
			t.Errorf("status %d is trouble %d", status, got)
		}
	})
}
