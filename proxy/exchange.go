package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// exchange is one request and what is known of it so far. One goroutine owns it.
type exchange struct {
	p     *Proxy
	w     http.ResponseWriter
	rc    http.ResponseController
	r     *http.Request
	start time.Time

	endpoint endpoint
	view     *fsm.View
	id       Identity
	model    fsm.Resolved // Model is nil until a model is resolved
	target   *target      // nil until a deployment is chosen
	receipt  Receipt      // nil until admitted
	watch    watch        // over the call
	callID   string
	mode     string        // x-sluice-limits
	values   [8]string     // of the answer's headers
	kept     int           // of them
	bodyRead bool          // the whole body of the request has been read
	bodySize int64         // of the request, as it goes up
	estimate limiter.Usage // what it will probably use; zero where no tokens are reserved
	capped   bool          // the request declared how long its answer may be; known where tokens are reserved

	sent     time.Time // when the call went up; zero before
	ready    time.Time // when its answer began
	status   int       // as the client was told; 0 before
	usage    usage
	output   int64 // estimate of what was relayed, used if the upstream gives no usage
	billable bool  // without usage, an estimate is due
	settled  bool
	outcome  string
	limited  string // x-sluice-limited-by
	failure  bool   // the upstream's
	cause    error  // what lies behind a failure, for the log
	abort    bool   // the answer was cut: its connection must not look whole
}

// unreadGrace is how long the rest of a refused request's body may take.
const unreadGrace = 2 * time.Second

// ServeHTTP answers one request of the data plane. Anything but its paths is a
// 404. It panics with http.ErrAbortHandler, after everything is settled, where
// an answer without a declared length was cut in the middle.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{p: p, w: w, rc: *http.NewResponseController(w), r: r, start: p.now()}
	defer x.finish()
	h := w.Header()
	h["X-Sluice-Node"] = p.nodeHeader
	x.showMode(x.p.mode())
	x.callID = p.callID(r.Header)
	x.set(h, "X-Litellm-Call-Id", x.callID)
	if err := x.serve(); err != nil {
		x.fail(err)
	}
	if x.abort {
		panic(http.ErrAbortHandler)
	}
}

// serve runs the request up to its answer. The error is answered by fail.
func (x *exchange) serve() error {
	path, err := CleanPath(x.r)
	if err != nil {
		return err
	}
	var named string
	if x.endpoint, named = match(path); x.endpoint == noEndpoint {
		return notFound(path)
	}
	if !x.endpoint.allows(x.r.Method) {
		return methodNotAllowed(x.endpoint)
	}
	// Who asks is settled before a byte of the body is read.
	if x.id, x.view, err = x.p.identify(x.r); err != nil {
		return err
	}
	if err := x.id.Usable(x.start); err != nil {
		return err
	}
	switch x.endpoint {
	case listModels:
		return x.listModels()
	case showModel:
		return x.showModel(named)
	}
	return x.call(named)
}

// call sends the request to an upstream and relays the answer. named is the
// model in the path, which goes before the body's.
func (x *exchange) call(named string) error {
	c, err := x.prepare(named)
	if err != nil {
		return err
	}
	defer c.payload.release()
	err = x.admit()
	if err != nil {
		// The node may have lost its quorum, or found it, while the request waited.
		x.showMode(x.p.mode())
		return err
	}
	x.showMode(x.receipt.Mode())
	inflight := x.p.metrics.inflight.WithLabelValues(x.model.Model.Name)
	inflight.Inc()
	defer inflight.Dec()

	up := x.view.Config().Upstream
	w := &x.watch
	w.start(x.r.Context(), up.FirstByteTimeout, up.IdleTimeout)
	defer w.end()
	x.sent = x.p.now()
	res, err := x.target.provider.send(w.ctx, c)
	if err != nil {
		return x.upstreamFailed(w, err)
	}
	defer res.Body.Close()
	return x.relay(w, c, res)
}

// prepare reads the body, finds the model and its deployment and makes the call
// of it. Nothing is counted before it has succeeded.
func (x *exchange) prepare(named string) (*call, error) {
	p := x.p
	body, err := p.readBody(&x.rc, x.r)
	if err != nil {
		return nil, err
	}
	x.bodyRead = true
	keep := false
	defer func() {
		if !keep {
			p.buffers.put(body)
		}
	}()
	f, err := scan(body.b)
	if err != nil {
		return nil, err
	}
	name := f.model
	if named != "" {
		name = named
	}
	if name == "" {
		return nil, badRequest("model", `"model" is missing or empty.`)
	}
	if x.model, err = x.id.resolve(x.view.Config(), x.endpoint, name); err != nil {
		x.model = fsm.Resolved{}
		return nil, err
	}
	if x.target, err = p.targets(x.view.Config()).pools[x.model.Model].pick(p.rand(), name); err != nil {
		return nil, err
	}
	c := &call{
		target: x.target, endpoint: x.endpoint, model: x.target.Model,
		stream: f.stream, usage: f.asked && f.stream, header: x.r.Header, query: x.r.URL.RawQuery,
	}
	if c.model == "" || c.model == "*" {
		c.model = x.model.Asked
	}
	model := c.model
	if model == f.model && f.plain {
		model = "" // it is there already, byte for byte
	}
	ask := f.stream && x.endpoint.streams() && !f.asked && !x.target.NoStreamUsage
	if model != "" || ask {
		room := len(body.b) + len(model) + 64
		out := p.buffers.sized(int64(room))
		out.room(room)
		out.b = f.rewrite(out.b, body.b, model, ask)
		p.buffers.put(body)
		body = out
	}
	keep = true
	if x.reserves() {
		x.estimate = limiter.Usage{Input: inputTokens(body.b), Output: x.outputTokens(&f)}
		x.capped = f.most >= 0
	}
	c.hide = ask
	c.usage = c.usage || ask
	x.bodySize = int64(len(body.b))
	c.payload = newPayload(&p.buffers, body)
	return c, nil
}

// admit asks the limiter. Whatever follows, the receipt is settled by finish.
func (x *exchange) admit() error {
	before := x.p.now()
	receipt, err := x.p.gate.Admit(x.r.Context(), limiter.Ticket{
		Model: x.model.Group, Key: x.id.keyID(), Team: x.id.teamID(), Priority: x.id.priority(),
		Estimate: x.estimate,
	})
	x.p.metrics.admission.Observe(x.p.now().Sub(before).Seconds())
	if err == nil {
		x.receipt = receipt
		return nil
	}
	var refusal *limiter.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Oversize:
		return &Error{Status: http.StatusBadRequest, Type: typeInvalid, Message: x.oversize(refusal)}
	case errors.As(err, &refusal):
		x.refused(refusal)
		return &Error{Status: http.StatusTooManyRequests, Type: typeThrottled, Message: refusal.Error(), LimitedBy: refusal.Scope.LimitedBy()}
	case errors.Is(err, limiter.ErrNoQuorum):
		x.w.Header()["Retry-After"] = []string{"1"}
		return &Error{
			Status: http.StatusServiceUnavailable, Type: typeUnavailable, LimitedBy: "quorum", cause: err,
			Message: "No quorum: the cluster has no leader that can count this request. Try again.",
		}
	case x.r.Context().Err() != nil:
		return explain(x.r.Context(), err).err
	}
	return &Error{Status: http.StatusServiceUnavailable, Type: typeUnavailable, Message: "The limiter could not decide about this request. Try again.", cause: err}
}

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
	e.write(x.w)
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
	}
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
	if x.usage.known && x.reserves() {
		x.p.learned.add(x.habit(), spent.Output)
	}
}

// cost is what the request consumed, as far as anybody said.
func (x *exchange) cost() (u limiter.Usage, estimated bool) {
	switch {
	case x.receipt == nil:
		return u, false
	case x.usage.known:
		return x.usage.tokens(), false
	case x.failure && x.output == 0 && x.endpoint.streams():
		return u, false // comments at most have reached the client
	case x.billable:
		return limiter.Usage{Input: estimate(x.bodySize), Output: x.output}, true
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
		slog.Int64("input_tokens", spent.Input), slog.Int64("output_tokens", spent.Output), slog.Int64("cached_tokens", spent.Cached),
		slog.Bool("usage_estimated", estimated), slog.Duration("duration", x.p.now().Sub(x.start)),
	}
	if x.cause != nil {
		attrs = append(attrs, slog.String("error", x.withoutSecret(x.cause.Error())))
	}
	x.p.logger.LogAttrs(context.Background(), level, "request", attrs...)
}

// withoutSecret takes the deployment's credential out of a text that an
// upstream had a part in.
func (x *exchange) withoutSecret(s string) string {
	if x.target == nil || x.target.secret == "" {
		return s
	}
	return strings.ReplaceAll(s, x.target.secret, "[redacted]")
}
