package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// vectorCase is one worked case of the limiter; the file says what it means.
type vectorCase struct {
	Name        string
	RPM, TPM    *int64
	Reservation *map[string]json.RawMessage
	Default     *float64 `json:"default_priority"`
	Threshold   *float64 `json:"saturation_threshold"`
	Steps       []vectorStep
}

type vectorStep struct {
	Priorities []*string
	Rounds     int
	Tokens     int64
	At         *float64
	Expect     struct {
		Admitted    map[string]int
		LastRefusal *struct {
			LimitedBy string `json:"limited_by"`
			Dimension string
			Remaining int64
			Priority  *string
		} `json:"last_refusal"`
	}
}

// timed reports whether the case needs a window that elapses.
func (c vectorCase) timed() bool {
	return slices.ContainsFunc(c.Steps, func(s vectorStep) bool { return s.At != nil })
}

func TestEveryVectorHoldsOverHTTPOnOneNodeAndSpreadOverThree(t *testing.T) {
	raw, err := os.ReadFile("testdata/limiter.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vectorCase }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 30 {
		t.Fatalf("testdata holds %d cases", len(file.Cases))
	}
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			t.Parallel()
			up := startUpstream(t)
			c := start(t, harness.Options{Nodes: nodes, Config: config(time.Minute, mockModel("placeholder"))})
			for i, vc := range file.Cases {
				t.Run(vc.Name, func(t *testing.T) {
					p := player{cluster: c, up: up, model: fmt.Sprintf("case-%02d", i+1), window: time.Minute}
					if vc.timed() {
						p.window = 6 * time.Second
					}
					p.play(t, vc)
				})
			}
		})
	}
}

// player plays one case against a running cluster, with a model of its own.
type player struct {
	cluster *harness.Cluster
	up      *upstream.Server
	model   string
	window  time.Duration
	keys    map[string]string // by priority name, "none" for none
	sent    int               // requests so far; each goes to the next node
	tokens  int64             // that must have been recorded by now
	total   int64             // admitted so far
	opened  time.Time         // when the first answer came
}

func (p *player) play(t *testing.T, vc vectorCase) {
	t.Helper()
	first := p.cluster.Nodes[0]
	if err := first.ApplyConfig(t.Context(), config(p.window, p.toml(vc))); err != nil {
		t.Fatal(err)
	}
	for _, n := range p.cluster.Nodes {
		eventually(t, 5*time.Second, n.ID+" has the new model", func() bool {
			_, err := n.Admin().Limits(t.Context(), p.model)
			return err == nil
		})
	}
	p.keys = make(map[string]string)
	for _, step := range vc.Steps {
		for _, name := range step.Priorities {
			if _, ok := p.keys[label(name)]; ok {
				continue
			}
			spec := harness.KeySpec{}
			if name != nil {
				spec.Priority = *name
			}
			p.keys[label(name)] = createKey(t, first, spec).Secret
		}
	}
	for i, step := range vc.Steps {
		p.step(t, fmt.Sprintf("step %d", i+1), step)
	}
	if got := p.up.Count(p.model); got != p.total {
		t.Errorf("the provider executed %d requests, %d were admitted", got, p.total)
	}
}

func (p *player) step(t *testing.T, name string, step vectorStep) {
	t.Helper()
	if step.At != nil {
		p.waitUntil(*step.At)
	}
	p.up.Play(upstream.Match{Model: p.model}, upstream.Step{
		Times: step.Rounds * len(step.Priorities),
		Usage: &upstream.Usage{Prompt: step.Tokens / 2, Completion: step.Tokens - step.Tokens/2},
	})
	admitted := make(map[string]int)
	var refusal *harness.Reply
	for range step.Rounds {
		for _, priority := range step.Priorities {
			n := p.cluster.Nodes[p.sent%len(p.cluster.Nodes)]
			p.sent++
			r := chat(t, n, p.keys[label(priority)], p.model)
			switch r.Status {
			case http.StatusOK:
				admitted[label(priority)]++
				p.total++
				p.settled(t, step.Tokens)
			case http.StatusTooManyRequests:
				refusal = r
			default:
				t.Fatalf("%s: status %d: %s", name, r.Status, r.Body)
			}
			if p.opened.IsZero() {
				p.opened = time.Now()
			}
		}
	}
	p.dropScript()
	if !maps.Equal(admitted, step.Expect.Admitted) {
		t.Errorf("%s: admitted %v, want %v", name, admitted, step.Expect.Admitted)
	}
	checkRefusal(t, name, step, refusal)
}

// settled waits until every node counts the tokens of the request that was just
// served: they are recorded when the answer is complete, a moment later on the
// others, and the next request goes to another node.
func (p *player) settled(t *testing.T, tokens int64) {
	t.Helper()
	if tokens == 0 {
		return
	}
	p.tokens += tokens
	for _, n := range p.cluster.Nodes {
		eventually(t, 5*time.Second, fmt.Sprintf("%s has recorded %d tokens", n.ID, p.tokens), func() bool {
			l, err := n.Admin().Limits(t.Context(), p.model)
			return err == nil && l.TPM.Used >= p.tokens
		})
	}
}

// dropScript forgets what refused requests left of the step's script.
func (p *player) dropScript() { p.up.Forget(upstream.Match{Model: p.model}) }

// waitUntil waits for a moment of the case's 60 s, scaled to the real window.
// The window began at some moment before its first answer came, so what must
// fall inside is sent a little early and what must fall outside is not.
func (p *player) waitUntil(at float64) {
	if p.opened.IsZero() {
		return
	}
	moment := time.Duration(at / 60 * float64(p.window))
	if moment < p.window {
		moment -= p.window / 30
	}
	time.Sleep(time.Until(p.opened.Add(moment)))
}

func checkRefusal(t *testing.T, name string, step vectorStep, refusal *harness.Reply) {
	t.Helper()
	want := step.Expect.LastRefusal
	if want == nil || refusal == nil {
		if (want == nil) != (refusal == nil) {
			t.Errorf("%s: last refusal %v, want %v", name, refusal, want)
		}
		return
	}
	priority := "None"
	if want.Priority != nil {
		priority = *want.Priority
	}
	message := refusal.ErrorMessage()
	for _, part := range []string{"Priority: " + priority + ",", "Rate limit type: " + want.Dimension + ",", fmt.Sprintf("Remaining: %d", want.Remaining)} {
		if !strings.Contains(message, part) {
			t.Errorf("%s: message %q lacks %q", name, message, part)
		}
	}
	if got := refusal.LimitedBy(); got != want.LimitedBy {
		t.Errorf("%s: limited by %q, want %q", name, got, want.LimitedBy)
	}
	if got := refusal.Header.Get("Rate_limit_type"); got != want.Dimension {
		t.Errorf("%s: rate_limit_type %q, want %q", name, got, want.Dimension)
	}
}

// toml writes the configuration of a case.
func (p *player) toml(vc vectorCase) string {
	limits := ""
	for name, l := range map[string]*int64{"rpm": vc.RPM, "tpm": vc.TPM} {
		if l != nil {
			limits += fmt.Sprintf("%s = %d\n", name, *l)
		}
	}
	var b strings.Builder
	b.WriteString(model(p.up, p.model, limits))
	if vc.Reservation != nil {
		b.WriteString("\n[priority_reservation]\n")
		for name, raw := range *vc.Reservation {
			var share struct {
				Type  string
				Value float64
			}
			if json.Unmarshal(raw, &share) == nil {
				fmt.Fprintf(&b, "%s = { type = %q, value = %v }\n", name, share.Type, share.Value)
			} else {
				fmt.Fprintf(&b, "%s = %s\n", name, raw)
			}
		}
	}
	b.WriteString("\n[priority_reservation_settings]\n")
	if vc.Default != nil {
		fmt.Fprintf(&b, "default_priority = %v\n", *vc.Default)
	}
	if vc.Threshold != nil {
		fmt.Fprintf(&b, "saturation_threshold = %v\n", *vc.Threshold)
	}
	return b.String()
}

func label(priority *string) string {
	if priority == nil {
		return "none"
	}
	return *priority
}
