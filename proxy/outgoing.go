package proxy

// outgoing makes the call of the exchange's deployment. Its payload is the
// exchange's until the next one, or the end.
func (x *exchange) outgoing() *call {
	f := &x.fields
	c := &x.out
	*c = call{
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
	c.hide = f.stream && x.endpoint.streams() && !f.asked && !x.target.NoStreamUsage
	c.usage = c.usage || c.hide
	if model == "" && !c.hide {
		if x.same == nil {
			x.same = newPayload(&x.p.buffers, x.body)
			x.body = nil
		}
		c.payload = x.same.again()
	} else {
		c.payload = x.rewritten(model, c.hide)
	}
	if f.form != nil {
		c.contentType = x.r.Header["Content-Type"]
	}
	x.payload.release()
	x.payload = c.payload
	x.bodySize = int64(c.payload.len())
	x.expect(f, x.bodySize)
	return c
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
}
