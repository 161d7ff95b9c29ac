package proxy

import (
	"net/http"
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
	foreign  bool         // it speaks another protocol than the client: everything is translated
	tied     *target      // a deployment of the only account that can serve the request; nil: any may
	makers   []owner      // accounts of which one may be that, to be asked once the request is admitted
	receipt  Receipt      // nil until admitted
	watch    watch        // over the call
	callID   string
	mode     string        // x-sluice-limits
	values   [8]string     // of the answer's headers
	kept     int           // of them
	bodyRead bool          // the whole body of the request has been read
	bodySize int64         // of the request, as it goes up
	payload  *payload      // the body that went up last, while it may be read; nil without a call
	input    int64         // estimate of what went up, used like output; 0: not made yet
	answers  int64         // how many were asked for
	later    int64         // estimate of an answer that is made in the background; 0 for others
	held     heldReader    // of the request's body, and the memory that it takes
	estimate limiter.Usage // what it will probably use; zero where no tokens are reserved

	fields    fields
	body      *buffer  // as the client sent it, until same has it
	same      *payload // the body where it goes up as it is; nil where it never did
	out       call     // the newest attempt
	turned    *payload // the body translated for turnedFor; nil where it was not
	turnedFor *target
	attempts  int64 // calls of upstreams
	fallbacks int64 // models that stood in

	sent      time.Time // when the first call went up; zero before
	ready     time.Time // when its answer began
	status    int       // as the client was told; 0 before
	usage     usage
	output    int64 // estimate of what was relayed, used if the upstream gives no usage
	billable  bool  // without usage, an estimate is due
	settled   bool
	outcome   string
	limited   string // x-sluice-limited-by
	failure   bool   // the upstream's
	blameless bool   // the failure may be the request's own fault
	cause     error  // what lies behind a failure, for the log
	abort     bool   // the answer was cut: its connection must not look whole
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
	case oneResponse, responseItems, cancelResponse:
		return x.resource(named)
	}
	return x.call(named)
}

// call sends the request to an upstream and relays the answer. named is the
// model in the path, which goes before the body's.
func (x *exchange) call(named string) error {
	if err := x.prepare(named); err != nil {
		return err
	}
	defer x.release()
	return x.route()
}

// prepare reads the body and finds the model. Nothing is counted before it has
// succeeded.
func (x *exchange) prepare(named string) error {
	body, err := x.readBody()
	if err != nil {
		return err
	}
	x.bodyRead = true
	x.body = body
	keep := false
	defer func() {
		if !keep {
			x.forget()
		}
	}()
	if err := x.scan(); err != nil {
		return err
	}
	name := x.fields.model
	if named != "" {
		name = named
	}
	if name == "" {
		name = x.defaultModel()
	}
	if name == "" {
		return badRequest("model", `"model" is missing or empty.`)
	}
	if x.model, err = x.id.resolve(x.view.Config(), x.endpoint, name); err != nil {
		x.model = fsm.Resolved{}
		return err
	}
	if err := x.checkFallbacks(); err != nil {
		return err
	}
	x.tie()
	keep = true
	return nil
}

// scan reads the fields of the body, and takes out of it what is the gateway's.
func (x *exchange) scan() (err error) {
	if x.fields, err = x.read(x.body.b); err != nil || !x.fields.own {
		return err
	}
	own := x.fields.routing
	out := x.p.buffers.sized(int64(len(x.body.b)))
	out.b = withoutOwn(out.b, x.body.b)
	x.p.buffers.put(x.body)
	x.body = out
	x.fields, err = scan(out.b)
	x.fields.routing = own
	return err
}
