package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"sluice/fsm"
)

// fault is why the client has no answer yet. Nothing has gone to it then, so
// that another attempt can still be the one that answers.
type fault struct {
	class   class
	trouble trouble
	answer  *http.Response // what the upstream said, its body in memory; nil if it said nothing
	err     error          // what the client is told where there is no answer
	forbid  bool           // x-should-retry: false
	wait    time.Duration  // what the provider asks for
}

// try calls deployments of the exchange's model until one has answered the
// client, which is nil, or no further attempt is due. x.target is the first;
// asked is the model that the client named, gone what was tried so far.
func (x *exchange) try(asked *fsm.Model, gone []fsm.Resolved) *fault {
	inflight := x.p.metrics.inflight.WithLabelValues(x.model.Model.Name)
	inflight.Inc()
	defer inflight.Dec()
	pool := x.pool(x.model)
	pool.budget.request(x.p.now())
	var tried []*target // since the last wait
	var waits int64
	var before time.Duration
	for {
		f := x.attempt()
		if f == nil || f.class == final {
			return f
		}
		now := x.p.now()
		tried = append(tried, x.target)
		s := situation{class: f.class, forbid: f.forbid, made: x.attempts, waits: waits, before: before}
		s.bound, s.fallback = x.bound(asked, gone)
		next, _ := x.next(pool, x.model, tried)
		s.other = next != nil
		s.floor, _ = pool.rest(now)
		if x.target.lone || x.endpoint.free() { // whose refusals pause no deployment
			s.floor = max(s.floor, f.wait)
		}
		if given, ok := timeout(x.r.Header); ok {
			s.deadline, s.left = true, x.start.Add(given).Sub(now)
		}
		move, wait := decide(pool.retries, s, x.p.rand(), x.p.rand())
		if move == giveUp || !pool.budget.take(now, *pool.retries.RetryBudget) {
			return f
		}
		x.abandon(f, wait)
		if err := x.sleep(wait); err != nil {
			return &fault{err: err}
		}
		if move == again {
			tried, waits, before = nil, waits+1, wait
			if next, _ = x.next(pool, x.model, nil); next == nil {
				return &fault{class: foreign, err: pool.unavailable(x.p.now(), x.model.Asked)}
			}
		}
		x.target = next
	}
}

// attempt calls the exchange's deployment once and relays what it answers. nil
// means that the client has its answer, whole or not.
func (x *exchange) attempt() *fault {
	c, err := x.outgoing()
	if err != nil {
		return &fault{class: foreign, err: err}
	}
	x.attempts++
	up := x.view.Config().Upstream
	w := &x.watch
	if x.attempts > 1 {
		w = &watch{} // the timer of the one before may still ring
	}
	if x.sent.IsZero() {
		x.sent = x.p.now()
	}
	w.start(x.r.Context(), up.FirstByteTimeout, up.IdleTimeout)
	defer w.end()
	res, err := x.target.provider.send(w.ctx, c)
	here := err == nil && res.Request == nil && x.endpoint == countTokens // an estimate says nothing of the deployment
	if !here {
		x.target.health.call(x.p.now())
	}
	if err != nil {
		return x.broken(x.upstreamFailed(w, err))
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 && res.StatusCode <= 599 {
		return x.hold(w, res)
	}
	if err := x.relay(w, c, res); err != nil {
		return x.broken(err)
	}
	switch {
	case here:
	case x.failure && !x.blameless: // in the middle of its answer
		x.target.health.fail(x.p.now())
	case !x.failure:
		x.target.health.succeed()
	}
	return nil
}

// broken is the fault of an attempt that gave no answer.
func (x *exchange) broken(err error) *fault {
	if x.failure {
		x.target.health.fail(x.p.now())
	}
	return &fault{class: classOfReason(x.outcome), err: err}
}

// hold reads an upstream's refusal, so that it can be judged before it is
// passed on.
func (x *exchange) hold(w *watch, res *http.Response) *fault {
	w.body = res.Body
	text, err := io.ReadAll(io.LimitReader(w, maxErrorBody))
	if err != nil {
		return x.broken(x.upstreamFailed(w, err))
	}
	text = unpackedError(res.Header, text)
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	f := &fault{class: classOf(res.StatusCode), trouble: troubleOf(res.StatusCode, text), answer: res, forbid: !mayRetry(res.Header)}
	now := x.p.now()
	if tooLargeForAMinute(res.StatusCode, text) {
		f.class = foreign
		return f
	}
	var asked bool
	if f.wait, asked = retryAfter(res.Header, now); !asked && res.StatusCode == http.StatusTooManyRequests {
		f.wait = cooldown
		if x.target.lone {
			f.wait = 0 // nobody asked: the backoff decides
		}
	}
	x.judge(res.StatusCode, text, f.wait, asked, now)
	return f
}

// unpackedError unpacks what an upstream packed though nobody asked for it, so
// that it can be read. What cannot be unpacked stays as it is.
func unpackedError(h http.Header, text []byte) []byte {
	if !isGzip(h) {
		return text
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return text
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxErrorBody))
	if err != nil {
		return text
	}
	nowPlain(h)
	return plain
}

// judge notes what a refusal says of the deployment. What the client could have
// caused says nothing: it must not take a deployment away from others.
func (x *exchange) judge(status int, text []byte, wait time.Duration, asked bool, now time.Time) {
	t := x.target
	until := now.Add(min(wait, maxCooldown))
	switch {
	case x.endpoint.free() && status != http.StatusUnauthorized:
		// Providers limit these apart from requests, imitations fail at them: it
		// says nothing of what others want.
	case status == http.StatusTooManyRequests:
		t.health.throttled.extend(until)
		if t.quota != nil && asked {
			t.quota.extend(until)
		} else if t.quota != nil {
			t.quota.extend(now.Add(cooldown))
		}
	case status == http.StatusUnauthorized && !foreignAccount(x.r.Header):
		t.health.refuse(now)
	case status == http.StatusNotFound && lacksModel(text, t.Model):
		t.health.refuse(now)
	case status >= 500, status == http.StatusRequestTimeout:
		t.health.fail(now)
		if asked {
			t.health.failing.extend(until)
		}
	}
}

// abandon forgets an attempt that another one follows.
func (x *exchange) abandon(f *fault, wait time.Duration) {
	reason := x.outcome
	if f.answer != nil {
		reason = "status_" + strconv.Itoa(f.answer.StatusCode)
		x.p.metrics.failures.WithLabelValues(x.target.ID, reason).Inc()
	}
	if x.p.logger.Enabled(context.Background(), slog.LevelDebug) {
		x.p.logger.LogAttrs(context.Background(), slog.LevelDebug, "attempt failed", slog.String("call_id", x.callID), slog.Int64("attempt", x.attempts),
			slog.String("deployment", x.deployment()), slog.String("reason", reason), slog.Duration("wait", wait))
	}
	x.outcome, x.cause, x.failure, x.blameless, x.billable = "", nil, false, false, false
	x.usage, x.output = usage{}, 0
}

// sleep waits between attempts. The error is what ended the request meanwhile;
// nothing was running then, so nothing is charged.
func (x *exchange) sleep(d time.Duration) error {
	ctx := x.r.Context()
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		return nil
	}
	f := explain(ctx, ctx.Err())
	x.outcome, x.cause = f.reason, f.err.cause
	return f.err
}

// conclude gives the client what is left: the refusal of the last upstream, or
// what is said where there was none.
func (x *exchange) conclude(f *fault) error {
	if f.answer == nil {
		return f.err
	}
	up := x.view.Config().Upstream
	w := &watch{}
	w.start(x.r.Context(), up.FirstByteTimeout, up.IdleTimeout)
	defer w.end()
	return x.relay(w, &x.out, f.answer)
}
