package proxy

import (
	"errors"
	"io"
	"net/http"
)

// streamer relays one event stream.
type streamer struct {
	x     *exchange
	watch *watch
	call  *call
	res   *http.Response
	in    *eventReader
	turn  translator // nil where the client speaks the upstream's protocol

	inspect  func(data []byte) chunk
	sequence int64 // of the last typed event

	committed bool   // the status has gone down
	finished  bool   // [DONE], or a finish_reason, or message_stop, or an error of the upstream's own
	done      bool   // [DONE] or message_stop: nothing can be missing
	told      bool   // an error of the upstream's own went down
	broken    error  // what the upstream sent cannot be translated
	out       []byte // what goes down, where it is not a slice of the buffer
	join      []byte // data of an event with several data lines
	cut       []byte // the event last judged, without its usage
	gone      bool   // the end of the event last judged did not go down as it was
}

// stream passes an event stream on, byte for byte and event by event. Only
// usage that the client did not ask for is taken out; for a client of the other
// protocol the events are translated. The error is one that
// came before the first event; later ones become an event of their own.
func (x *exchange) stream(w *watch, c *call, body io.Reader, res *http.Response) error {
	buf := x.p.buffers.get()
	defer x.p.buffers.put(buf)
	s := &streamer{x: x, watch: w, call: c, res: res, in: newEventReader(body, buf.b, x.p.maxEvent), inspect: inspectorOf(c.endpoint)}
	x.usage = newUsage(c.endpoint.protocol())
	if x.foreign {
		s.turn = x.translator(c)
	}
	for {
		err := s.in.fill()
		if err == nil {
			err = s.pass()
			if err != nil {
				x.left(err)
				return nil
			}
			if s.broken == nil {
				continue
			}
			err = s.broken
		}
		return s.end(err)
	}
}

// pass relays the units that are in the buffer, in one write.
func (s *streamer) pass() error {
	s.out = s.out[:0]
	if s.turn != nil {
		return s.passTranslated()
	}
	// Units that stay as they are and follow each other go out as one slice
	// of the buffer; only a change makes a copy.
	var run []byte
	for {
		u, ok := s.in.next()
		if !ok {
			break
		}
		keep := s.judge(u)
		switch {
		case keep == whole && len(s.out) == 0:
			run = joined(run, u.raw)
		case keep == whole:
			s.out = append(s.out, u.raw...)
		default:
			if len(s.out) == 0 {
				s.out = append(s.out, run...)
				run = nil
			}
			if keep == part {
				s.out = append(s.out, s.cut...)
			}
		}
	}
	if len(s.out) > 0 {
		run = s.out
	}
	return s.write(run)
}

// joined returns a and b, which follows it in the same buffer, as one slice.
func joined(a, b []byte) []byte {
	if a == nil {
		return b
	}
	return a[:len(a)+len(b)]
}

// verdict says how much of a unit the client gets.
type verdict uint8

const (
	whole verdict = iota
	part          // without its usage; the rest is in streamer.cut
	nothing
)

// judge reads what matters in a unit and decides what the client sees of it.
func (s *streamer) judge(u unit) verdict {
	if u.tail && s.gone {
		return nothing
	}
	s.gone = false
	if !u.data {
		return whole
	}
	data, lines := eventData(u.raw, s.join)
	if lines > 1 {
		s.join = data
	}
	c := s.note(data)
	if c.failed {
		s.told = true
		if clean, changed := s.x.withoutCredential(u.raw); changed {
			s.cut = append(s.cut[:0], clean...)
			return part
		}
	}
	if c.failed || !s.call.hide || !c.json || c.usage == nil {
		return whole
	}
	if c.usageOnly() {
		s.gone = true
		return nothing
	}
	s.gone = lines > 1
	s.cut = c.withoutUsage(s.cut[:0], u.raw, data, lines)
	return part
}

// note reads what an event means for the gateway's books.
func (s *streamer) note(data []byte) chunk {
	c := s.inspect(data)
	s.done = s.done || c.done
	s.finished = s.finished || c.done || c.finish || c.failed
	if c.usage != nil {
		s.x.usage.merge(c.usage)
		s.x.usage.partial = c.start || c.usage[0] != '{' && s.x.usage.partial
	}
	if c.id != "" {
		s.x.remember(c.id)
	}
	s.sequence = max(s.sequence, c.sequence)
	s.x.output += c.tokens()
	if c.failed {
		s.x.failed(failure{"stream_error", badGateway("", nil)})
		s.x.blameless = requestAtFault(data)
	}
	return c
}

// inspectorOf returns what reads the events of an upstream's endpoint.
func inspectorOf(e endpoint) func(data []byte) chunk {
	switch {
	case e.typed():
		return inspectTyped
	case e.protocol() == anthropicProtocol:
		return inspectMessages
	}
	return inspect
}

// write sends bytes to the client, after the status if that has not gone yet.
func (s *streamer) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if !s.committed {
		s.commit()
	}
	if s.done {
		s.x.settle()
	}
	return s.x.send(b)
}

// commit sends the status and headers.
func (s *streamer) commit() {
	x := s.x
	x.ready = x.p.now()
	x.responseHeaders(s.res)
	h := x.w.Header()
	if s.turn != nil {
		h["Content-Type"] = eventStream
	}
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = no
	x.status, x.billable = s.res.StatusCode, true
	s.committed = true
	x.w.WriteHeader(s.res.StatusCode)
}

var (
	noCache = []string{"no-cache"}
	no      = []string{"no"} // tells nginx not to hold events back
)

// end deals with the end of the upstream's stream: a clean one, a cut one, or
// one that the gateway ended.
func (s *streamer) end(err error) error {
	x := s.x
	if s.broken == nil && errors.Is(err, io.EOF) {
		sendErr := s.last()
		if sendErr == nil && s.turn != nil {
			sendErr = s.endTranslated()
		}
		if sendErr != nil {
			x.left(sendErr)
			return nil
		}
		if s.finished {
			return nil
		}
		err = io.ErrUnexpectedEOF
	} else if s.done || s.told {
		return nil // the transport failed after the stream's own end, or after the error that it reported
	}
	f := explain(s.watch.ctx, err)
	if s.broken != nil {
		f = failure{"protocol", badGateway("The upstream sent something that is not part of its protocol.", s.broken)}
	}
	if errors.Is(err, errEventTooLarge) {
		f = failure{"protocol", badGateway("An event of the upstream is larger than "+byteCount(int64(s.in.max))+".", err)}
	}
	x.failed(f)
	if !s.committed {
		return f.err
	}
	if f.reason == clientGone {
		x.abort = true
		return nil
	}
	// Half an event was never relayed, so this one stands by itself. No [DONE]
	// and no message_stop follows: the answer is not whole.
	if err := x.send(s.errorEvent(f.err)); err != nil {
		x.left(err)
	}
	return nil
}

// errorEvent is the gateway's own last event of a stream that is not whole.
func (s *streamer) errorEvent(e *Error) []byte {
	if s.call.endpoint.typed() {
		return typedError(e, s.sequence+1)
	}
	return e.event(s.x.protocol(), s.x.callID)
}

// last relays what the upstream left without a blank line at its end, if it is
// whole, and adds that line: some clients drop an event without it.
func (s *streamer) last() error {
	u := s.in.rest()
	if len(u.raw) == 0 {
		return nil
	}
	if u.data {
		data, _ := eventData(u.raw, nil)
		if c := s.inspect(data); !c.json && !c.done {
			return nil // cut in the middle
		}
	} else if u.raw[0] != '\n' && u.raw[0] != '\r' && u.raw[0] != ':' {
		return nil
	}
	raw := append([]byte(nil), u.raw...)
	if n := len(raw); raw[n-1] != '\n' && raw[n-1] != '\r' {
		raw = append(raw, '\n')
	}
	u.raw = append(raw, '\n')
	if s.turn != nil {
		return s.write(s.translated(nil, u))
	}
	switch s.judge(u) {
	case whole:
		return s.write(u.raw)
	case part:
		return s.write(s.cut)
	}
	return nil
}
