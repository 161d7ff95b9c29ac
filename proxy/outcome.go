package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"sluice/limiter"
)

// upstreamFailed turns the failure of a call that has sent nothing to the
// client yet into its answer.
func (x *exchange) upstreamFailed(w *watch, err error) error {
	f := explain(w.ctx, err)
	x.failed(f)
	return f.err
}

// failed counts a failure. A client that leaves after its request went up is
// charged what the upstream was given; a failing upstream charges nothing.
func (x *exchange) failed(f failure) {
	x.outcome, x.cause = f.reason, f.err.cause
	switch f.reason {
	case clientGone:
		x.billable = true
	case shuttingDown:
	default:
		x.p.metrics.failures.WithLabelValues(x.target.ID, f.reason).Inc()
		x.failure = true
	}
}

// fail answers with an error of the gateway's own.
func (x *exchange) fail(err error) {
	e := asError(err)
	if x.outcome == "" {
		x.outcome = "refused"
	}
	x.status, x.limited = e.Status, e.LimitedBy
	x.cause = e.cause
	if e.Status == statusClientGone {
		// Nobody reads an answer; nothing may be left of the connection.
		x.outcome, x.abort = clientGone, true
		return
	}
	if !x.bodyRead && x.r.ContentLength != 0 {
		// The server reads on a little before it answers, to keep the
		// connection; a client that drips must not hold it for that.
		_ = x.rc.SetReadDeadline(time.Now().Add(unreadGrace))
	}
	x.modelHeaders()
	e.write(x.w, x.protocol(), x.callID)
}

// finish settles and accounts, whatever happened.
func (x *exchange) finish() {
	if x.status == 0 { // a panic is passing
		x.status, x.outcome = http.StatusInternalServerError, "panic"
	}
	if x.outcome == "" {
		x.outcome = "ok"
	}
	model, priority := x.labels()
	spent, estimated := x.cost()
	if x.receipt != nil {
		x.settle()
		m := x.p.metrics
		m.count(model, priority, "input", estimated, spent.Input)
		m.count(model, priority, "output", estimated, spent.Output)
		m.count(model, priority, "cached", estimated, spent.Cached)
		m.count(model, priority, "cache_creation", estimated, x.usage.created)
		m.count(model, priority, "reasoning", estimated, x.usage.reasoning)
	}
	x.p.memory.put(x.held.taken)
	x.p.metrics.requests.WithLabelValues(model, priority, strconv.Itoa(x.status)).Inc()
	x.log(spent, estimated)
}

// settle tells the limiter what the request consumed; only the first call acts.
// It comes before the client can have the last byte of its answer: a client
// that asks again at once is then measured against what it has just used.
func (x *exchange) settle() {
	if x.receipt == nil || x.settled {
		return
	}
	x.settled = true
	spent, _ := x.cost()
	x.receipt.Settle(spent)
	if x.usage.known && !x.usage.partial && x.reserves() {
		x.p.learned.add(x.habit(), spent.Output)
	}
}

// cost is what the request consumed, as far as anybody said.
func (x *exchange) cost() (u limiter.Usage, estimated bool) {
	switch {
	case x.receipt == nil:
		return u, false
	case x.usage.known:
		u = x.usage.tokens()
		if x.usage.partial && x.output > u.Output {
			u.Output, estimated = x.output, true // the rest of the figures never came
		}
		return u, estimated
	case x.failure && x.output == 0 && x.endpoint.product() != figures:
		return u, false // comments at most have reached the client
	case x.billable:
		return limiter.Usage{Input: x.inputEstimate(), Output: x.output}, true
	}
	return u, false
}

// labels returns the model and priority labels, bounded by the configuration.
func (x *exchange) labels() (model, priority string) {
	model, priority = unknown, "default"
	if x.model.Model == nil {
		return model, priority
	}
	if pol := x.model.Policy; pol != nil {
		if _, known := pol.Pools[x.id.priority()]; known {
			priority = x.id.priority()
		}
	}
	return x.model.Model.Name, priority
}

func (x *exchange) deployment() string {
	if x.target == nil {
		return ""
	}
	return x.target.ID
}

// log writes the one line about the request: what failed as info, the rest for
// debugging.
func (x *exchange) log(spent limiter.Usage, estimated bool) {
	level := slog.LevelDebug
	if x.failure || x.status >= http.StatusInternalServerError {
		level = slog.LevelInfo
	}
	if !x.p.logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("call_id", x.callID), slog.String("endpoint", x.endpoint.path()), slog.Int("status", x.status),
		slog.String("outcome", x.outcome), slog.String("limited_by", x.limited),
		slog.String("model", x.model.Group), slog.String("deployment", x.deployment()),
		slog.String("key", x.id.keyID()), slog.String("team", x.id.teamID()), slog.String("priority", x.id.priority()),
		slog.Int64("input_tokens", spent.Input), slog.Int64("output_tokens", spent.Output), slog.Int64("cached_tokens", spent.Cached), slog.Int64("reasoning_tokens", x.usage.reasoning),
		slog.Int64("cache_creation_tokens", x.usage.created),
		slog.Int64("attempts", x.attempts), slog.Bool("usage_estimated", estimated), slog.Duration("duration", x.p.now().Sub(x.start)),
	}
	if x.cause != nil {
		attrs = append(attrs, slog.String("error", x.withoutSecret(x.cause.Error())))
	}
	x.p.logger.LogAttrs(context.Background(), level, "request", attrs...)
}
