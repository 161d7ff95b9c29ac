package proxy

import "bytes"

// passTranslated is pass for a client of the other protocol.
func (s *streamer) passTranslated() error {
	for s.broken == nil {
		u, ok := s.in.next()
		if !ok {
			break
		}
		s.out = s.translated(s.out, u)
	}
	return s.write(s.out)
}

// translated appends what a unit becomes. A failure is left in s.broken.
func (s *streamer) translated(dst []byte, u unit) []byte {
	switch {
	case s.done:
		return dst // the client has its end; nothing may follow
	case !u.data && u.raw[0] == ':':
		// Keeps the line warm in any protocol. Its end is ours: of CR LF the LF may
		// come late.
		return append(append(dst, bytes.TrimRight(u.raw, "\r\n")...), '\n')
	case !u.data:
		return dst
	}
	data, lines := eventData(u.raw, s.join)
	if lines > 1 {
		s.join = data
	}
	ended := s.finished
	c := s.note(data)
	if c.failed {
		data, _ = s.x.withoutCredential(data)
	}
	before, name := len(dst), eventName(u.raw)
	dst, s.broken = s.turn.Event(dst, name, data)
	s.told = s.told || c.failed && s.broken == nil && len(dst) > before
	switch {
	case s.broken != nil:
	case c.done:
		dst, s.finished = s.turn.End(dst)
	case ended && (c.choices == nil || c.nochoice) && len(c.usage) > 0 && c.usage[0] == '{' && len(dst) > before:
		s.done = true // the usage behind the finish_reason is the last there is
	case len(dst) == before && name == "ping":
		dst = append(dst, ": ping\n"...)
	}
	return dst
}

// endTranslated sends what is due when the upstream has ended, and finds out
// whether it ended as it should.
func (s *streamer) endTranslated() error {
	if s.done {
		return nil
	}
	s.finished = false
	if s.broken != nil {
		return nil
	}
	out, ok := s.turn.End(nil)
	if s.finished = ok; !ok {
		return nil
	}
	s.done = !s.x.failure
	return s.write(out)
}

// eventName returns the name of an event, "" for one without.
func eventName(raw []byte) string {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	name := ""
	for line := range splitLines(raw) {
		if v, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			name = string(bytes.TrimPrefix(v, []byte(" ")))
		}
	}
	return name
}
