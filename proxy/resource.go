package proxy

import (
	"net/http"
	"strings"
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
	if len(owners) == 0 {
		return noResponse(id)
	}
	var failed error // of an account that could not be asked
	for i, o := range owners {
		last := i == len(owners)-1
		done, err := x.ask(o, c, last && failed == nil, len(owners) > 1)
		if done {
			return err
		}
		if err != nil {
			failed = err
		}
	}
	return failed
}

// ask asks one account. done is false where another one is to be asked: this
// one does not know the response, or err tells why it could not say.
func (x *exchange) ask(o owner, c *call, last, many bool) (done bool, err error) {
	x.target, x.model = o.target, o.model
	c.target, c.model = o.target, o.Model
	if c.model == "" || c.model == "*" {
		c.model = o.model.Asked
	}
	up := x.view.Config().Upstream
	first := up.FirstByteTimeout
	if many {
		first = min(first, askTime)
	}
	w := new(watch)
	w.start(x.r.Context(), first, up.IdleTimeout)
	defer w.end()
	x.sent = x.p.now()
	res, err := o.provider.send(w.ctx, c)
	if err != nil {
		err = x.upstreamFailed(w, err)
		return last || x.r.Context().Err() != nil, err
	}
	defer res.Body.Close()
	switch status := res.StatusCode; {
	case last:
	case status >= http.StatusInternalServerError, status == http.StatusUnauthorized, status == http.StatusTooManyRequests:
		return false, badGateway("The response was not found, and deployment "+o.ID+" could not say whether it has it. Try again.", nil)
	case status >= http.StatusBadRequest:
		return false, nil // unknown there, or not even an id there
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
	return true, x.relay(w, c, res)
}

func noResponse(id string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalid,
		Message: "Response with id '" + clip(id) + "' not found: no model that this key may use keeps responses.",
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

// scan reads what matters in a body: of JSON, or of a form where the endpoint
// takes one.
func (x *exchange) scan(body []byte) (fields, error) {
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
	return fields{model: form.model, stream: form.stream, plain: true, most: -1, n: form.n, form: &form}, nil
}
