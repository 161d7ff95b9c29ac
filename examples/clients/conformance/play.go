package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sluice/examples/upstream"
)

// driver carries out calls with the libraries of one language. Run returns an
// error only if the driver itself failed; what a library raised is in the result.
type driver interface {
	Name() string
	Run(ctx context.Context, call Call) (Result, error)
	Close() error
}

// play plays a case on its way and returns everything that was not as it must
// be; skip, if not "", says why the driver could not play it. A broken driver
// must be replaced.
func (r *rig) play(ctx context.Context, d driver, c Case, w Way) (problems []string, skip string, broken bool) {
	r.up.Reset()
	r.up.Play(upstream.Match{}, c.Steps...)
	before, err := r.ledger(ctx)
	if err != nil {
		return []string{err.Error()}, "", false
	}
	call := c.Call
	if call.Model == "" {
		call.Model = c.model(w)
	}
	call.BaseURL, call.Key = r.up.URL(), r.keys[c.Key]
	if w != Straight {
		call.BaseURL = r.node.URL()
		call.Headers = withRetries(call.Headers)
	}
	limit := c.Within
	if limit == 0 {
		limit = 10 * time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	begun := time.Now()
	got, err := d.Run(bounded, call)
	took := time.Since(begun)
	switch {
	case err != nil:
		return []string{err.Error()}, "", true
	case got.Skip != "":
		return nil, got.Skip, false
	}
	problems = compare(c.wants(w), got)
	if took > limit {
		problems = append(problems, fmt.Sprintf("it took %s, more than %s", took.Round(time.Millisecond), limit))
	}
	if took < c.AtLeast {
		problems = append(problems, fmt.Sprintf("it took %s, less than %s", took.Round(time.Millisecond), c.AtLeast))
	}
	return append(problems, r.invariants(ctx, c, w, before)...), "", false
}

// withRetries has sluice try once, unless a case says otherwise: whatever the
// provider executes more than once was then the library's doing.
func withRetries(headers map[string]string) map[string]string {
	all := map[string]string{retriesHeader: "0"}
	maps.Copy(all, headers)
	return all
}

const retriesHeader = "x-litellm-num-retries"

// invariants are what must hold after every case: the provider executed what it
// should, nothing is in flight, and sluice counted what the provider reported.
func (r *rig) invariants(ctx context.Context, c Case, w Way, before ledger) []string {
	var problems []string
	requests := r.up.Requests("")
	if n := r.up.Count(""); n != int64(c.Executed) {
		problems = append(problems, fmt.Sprintf("the provider executed %d requests, not %d", n, c.Executed))
	}
	if c.Sent != nil && len(requests) > 0 {
		if bad := c.Sent(requests[len(requests)-1]); bad != "" {
			problems = append(problems, bad)
		}
	}
	if err := r.upstreamIdle(); err != "" {
		problems = append(problems, err)
	}
	if w == Straight {
		return problems
	}
	for _, q := range requests {
		if q.Credential != providerKey || strings.Contains(string(q.Raw), r.keys[c.Key]) {
			problems = append(problems, "the provider was sent another credential than its own")
		}
	}
	if err := r.settled(ctx); err != nil {
		problems = append(problems, err.Error())
	}
	now, err := r.ledger(ctx)
	if err != nil {
		return append(problems, err.Error())
	}
	counted, want := now.since(before), Usage{}
	if c.Spent != nil {
		want = *c.Spent
	}
	if !c.Guessed && counted != want {
		problems = append(problems, fmt.Sprintf("sluice counted %+v, the provider reported %+v", counted, want))
	}
	if c.Guessed && counted.Input == 0 {
		problems = append(problems, fmt.Sprintf("sluice counted %+v for a request that the provider worked on", counted))
	}
	return problems
}

// upstreamIdle waits until the provider has finished or given up every answer:
// whoever left must have closed the way to it, within a second.
func (r *rig) upstreamIdle() string {
	for deadline := time.Now().Add(1500 * time.Millisecond); ; time.Sleep(5 * time.Millisecond) {
		busy := 0
		for _, q := range r.up.Requests("") {
			if q.DoneAt.IsZero() {
				busy++
			}
		}
		if busy == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return fmt.Sprintf("the provider still works on %d requests that nobody waits for", busy)
		}
	}
}

// compare tells what a result has that was not wanted, and the reverse. Of a
// failure it compares what the case names.
func compare(want, got Result) []string {
	var problems []string
	problem := func(what string, want, got any) {
		problems = append(problems, fmt.Sprintf("%s is %s, not %s", what, show(got), show(want)))
	}
	fw, fg := want.Failure, got.Failure
	want.Failure, got.Failure = nil, nil
	if fw != nil {
		want.Usage, got.Usage = nil, nil // of half an answer
		want.Finish, got.Finish = "", ""
	}
	if want.Left {
		got.Usage = nil
	}
	switch {
	case fw == nil && fg != nil:
		problem("the failure", nil, fg)
	case fw != nil && fg == nil:
		problem("the failure", fw, nil)
	case fw != nil:
		problems = append(problems, compareFailure(*fw, *fg)...)
	}
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	for i := range w.NumField() {
		a, b := w.Field(i).Interface(), g.Field(i).Interface()
		name := strings.ToLower(w.Type().Field(i).Name)
		if name == "tools" && sameTools(want.Tools, got.Tools) {
			continue
		}
		if !reflect.DeepEqual(a, b) && (w.Field(i).IsZero() != g.Field(i).IsZero() || show(a) != show(b)) {
			problem(name, a, b)
		}
	}
	return problems
}

func compareFailure(want, got Failure) []string {
	same := func(want, got string) bool { return want == "" || want == got }
	ok := want.Kind == got.Kind && (want.Status == 0 || want.Status == got.Status) && same(want.Type, got.Type) &&
		strings.Contains(got.Message, want.Message) && same(want.LimitedBy, got.LimitedBy)
	if want.RetryAfter == "*" {
		seconds, err := strconv.Atoi(got.RetryAfter)
		ok = ok && err == nil && seconds >= 1 && seconds <= 60
	} else {
		ok = ok && same(want.RetryAfter, got.RetryAfter)
	}
	if ok && (want.Kind != failedStatus || got.Message != "") {
		return nil
	}
	return []string{fmt.Sprintf("the failure is %s, not %s", show(got), show(want))}
}

// sameTools compares arguments by what they mean: some libraries hand out a
// parsed object.
func sameTools(want, got []Tool) bool {
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i].ID != got[i].ID || want[i].Name != got[i].Name || !reflect.DeepEqual(meaning(want[i].Arguments), meaning(got[i].Arguments)) {
			return false
		}
	}
	return true
}

func meaning(arguments string) any {
	var v any
	switch {
	case arguments == "":
		return map[string]any{}
	case json.Unmarshal([]byte(arguments), &v) != nil:
		return arguments
	}
	return v
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // cannot be: results encode
		return fmt.Sprint(v)
	}
	if len(b) > 400 {
		b = append(b[:400], "…"...)
	}
	return string(b)
}
