package proxy

import "sluice/fsm"

// callOf returns the call of a deployment as model m, without a body.
func (x *exchange) callOf(t *target, m fsm.Resolved) call {
	f := &x.fields
	c := call{
		target: t, endpoint: t.provider.serves(x.endpoint), model: t.Model,
		stream: f.stream, usage: f.asked && f.stream, header: x.r.Header, query: x.r.URL.RawQuery,
	}
	if c.model == "" || c.model == "*" {
		c.model = m.Asked
	}
	c.foreign = c.endpoint != x.endpoint
	// A translator sees to usage by itself; Messages have it anyhow.
	c.hide = f.stream && !f.asked && !t.NoStreamUsage && !c.foreign && c.endpoint.streams() && c.endpoint.protocol() == openAIProtocol
	c.usage = c.usage || c.hide
	return c
}

// outgoing makes the call of the exchange's deployment. Its payload is the
// exchange's until the next one, or the end. The error is one of translation.
func (x *exchange) outgoing() (*call, error) {
	f := &x.fields
	c := &x.out
	*c = x.callOf(x.target, x.model)
	x.foreign = c.foreign
	model := c.model
	if model == f.model && f.plain {
		model = "" // it is there already, byte for byte
	}
	switch {
	case c.foreign:
		var err error
		if c.payload, err = x.translated(c); err != nil {
			return nil, err
		}
		x.turned, x.turnedFor = nil, nil
	case model == "" && !c.hide:
		if x.same == nil {
			x.same = newPayload(&x.p.buffers, x.body)
			x.body = nil
		}
		c.payload = x.same.again()
	default:
		c.payload = x.rewritten(model, c.hide)
	}
	if f.form != nil {
		c.contentType = x.r.Header["Content-Type"]
	}
	x.payload.release()
	x.payload = c.payload
	x.bodySize = int64(c.payload.len())
	x.expect(f, x.bodySize)
	return c, nil
}

// translated returns the body of a foreign call. It is kept for the call that
// follows the choice of its deployment.
func (x *exchange) translated(c *call) (*payload, error) {
	if x.turnedFor == c.target {
		return x.turned, nil
	}
	b, err := translateRequest(c, x.bytes())
	if err != nil {
		return nil, err
	}
	x.turned, x.turnedFor = newPayload(&x.p.buffers, b), c.target
	return x.turned, nil
}

// rewritten returns the body with what must change for a deployment.
func (x *exchange) rewritten(model string, usage bool) *payload {
	data := x.bytes()
	room := len(data) + len(model) + 64
	out := x.p.buffers.sized(int64(room))
	out.room(room)
	out.b = x.fields.rewrite(out.b, data, model, usage)
	return newPayload(&x.p.buffers, out)
}

// bytes returns the request's body. It is not to be changed.
func (x *exchange) bytes() []byte {
	if x.same != nil {
		return x.same.bytes()
	}
	return x.body.b
}

// forget gives the client's body back, when no attempt can follow.
func (x *exchange) forget() {
	if x.same != nil {
		x.same.release()
	}
	x.p.buffers.put(x.body)
	x.same, x.body = nil, nil
	x.turned, x.turnedFor = nil, nil
}
