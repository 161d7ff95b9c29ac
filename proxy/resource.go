package proxy

import (
	"net/http"
	"strings"

	"sluice/fsm"
)

// resource answers what is asked about a response that was made before. It
// generates nothing, so it is no request by any limit, and the usage in it was
// counted when it was made.
func (x *exchange) resource(id string) error {
	c := &call{
		endpoint: x.endpoint, header: x.r.Header, query: x.r.URL.RawQuery,
		method: x.r.Method, resource: "/" + id + x.endpoint.below(),
		stream: x.r.URL.Query().Get("stream") == "true",
	}
	if x.r.Method == http.MethodPost {
		body, err := x.readBody()
		if err != nil {
			return err
		}
		x.bodyRead = true
		if len(body.b) > 0 {
			c.payload = newPayload(&x.p.buffers, body)
			defer c.payload.release()
		} else {
			x.p.buffers.put(body)
		}
	}
	owners := x.p.owners(x.view.Config(), x.id.usable(x.view.Config()), id)
	if len(owners) == 1 {
		_, err := x.inquire(owners[0], c, true)
		return err
	}
	end, err := x.search()
	if err != nil {
		return err
	}
	defer end()
	var failed error  // of an account that could not be asked
	var other []owner // that had something else to say about the request
	for _, o := range owners {
		said, err := x.inquire(o, c, false)
		switch {
		case said == itsAnswer, x.r.Context().Err() != nil:
			return err
		case said == itsObjection:
			other = append(other, o)
		case err != nil:
			failed = err
		}
	}
	switch {
	case failed != nil:
		return failed
	case len(other) > 0:
		_, err := x.inquire(other[0], c, true)
		return err
	}
	x.target, x.model = nil, fsm.Resolved{}
	return noResponse(id)
}

// said is what an account has to say about a response.
type said uint8

const (
	itsAnswer    said = iota // it has been relayed
	itsObjection             // an error that may be about the request: it may have the response, or not know such ids
	notKnown                 // or why it could not say, in an error
)

// inquire asks one account. If it is the only one to ask, whatever it says is the
// answer.
func (x *exchange) inquire(o owner, c *call, only bool) (said, error) {
	x.target, x.model = o.target, o.model
	c.target, c.model = o.target, o.Model
	if c.model == "" || c.model == "*" {
		c.model = o.model.Asked
	}
	up := x.view.Config().Upstream
	first := up.FirstByteTimeout
	if !only {
		first = min(first, askTime)
	}
	w := new(watch)
	w.start(x.r.Context(), first, up.IdleTimeout)
	defer w.end()
	x.sent = x.p.now()
	res, err := o.provider.send(w.ctx, c)
	if err != nil {
		return notKnown, x.upstreamFailed(w, err)
	}
	defer res.Body.Close()
	switch status := res.StatusCode; {
	case only:
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return notKnown, nil
	case status >= http.StatusInternalServerError, status == http.StatusUnauthorized, status == http.StatusTooManyRequests:
		return notKnown, badGateway("The response was not found, and deployment "+o.ID+" could not say whether it has it. Try again.", nil)
	case status >= http.StatusBadRequest:
		return itsObjection, nil
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(c.resource, "/"), "/")
	if res.StatusCode < 300 {
		if x.r.Method == http.MethodDelete {
			x.p.origins.drop(id)
		} else {
			x.remember(id)
		}
	}
	x.failure, x.outcome, x.cause = false, "", nil // of those asked before
	return itsAnswer, x.relay(w, c, res)
}

func noResponse(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalid,
		Message: "Response with id '" + clip(id) + "' not found at any deployment of the models that this key may use.",
	}
}

// below returns what follows a response's id.
func (e endpoint) below() string {
	switch e {
	case responseItems:
		return "/input_items"
	case cancelResponse:
		return "/cancel"
	}
	return ""
}

// defaultModel returns the model of a request that names none, "" if it has to.
func (x *exchange) defaultModel() string {
	const usual = "omni-moderation-latest"
	if x.endpoint != moderations {
		return ""
	}
	if _, ok := x.view.Config().Resolve(usual); !ok {
		return ""
	}
	return usual
}

// read reads what matters in a body: of JSON, or of a form where the endpoint
// takes one.
func (x *exchange) read(body []byte) (fields, error) {
	kind := x.r.Header["Content-Type"]
	if !operations[x.endpoint].form || !isForm(kind) {
		return scan(body)
	}
	boundary, err := formBoundary(kind)
	if err != nil {
		return fields{}, err
	}
	form, err := scanForm(body, boundary)
	if err != nil {
		return fields{}, err
	}
	return fields{model: form.model, stream: form.stream, plain: true, most: -1, n: form.n, routing: routing{retries: -1}, form: &form}, nil
}
