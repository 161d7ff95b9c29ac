package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// sseEvent is an event as the specification of event streams dispatches it.
type sseEvent struct{ name, data string }

// errMalformed is returned for bytes that a strict reader does not forgive.
var errMalformed = errors.New("malformed event stream")

// readEvents reads a whole event stream and calls each for every event. It
// follows the specification, and where that forgives, it does not: every byte
// must be valid UTF-8, lines must be ones that the specification knows, and the
// last event must be dispatched. The error is each's, the reader's, or errMalformed.
func readEvents(r io.Reader, each func(sseEvent) error) error {
	p := sseParser{each: each}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if bad := p.feed(buf[:n]); bad != nil {
			return bad
		}
		if errors.Is(err, io.EOF) {
			return p.end()
		}
		if err != nil {
			return err
		}
	}
}

// sseParser takes bytes as they come.
type sseParser struct {
	each func(sseEvent) error
	line []byte // begun and not ended
	cr   bool   // the last byte was CR: an LF that follows belongs to it
	name string
	data []byte
	some bool // a data line has come
	open bool // a field line has come since the last event
}

func (p *sseParser) feed(b []byte) error {
	for _, c := range b {
		if p.cr && c == '\n' {
			p.cr = false
			continue
		}
		p.cr = c == '\r'
		if c != '\n' && c != '\r' {
			p.line = append(p.line, c)
			continue
		}
		if err := p.field(); err != nil {
			return err
		}
		p.line = p.line[:0]
	}
	return nil
}

// field takes the line that has ended.
func (p *sseParser) field() error {
	if !utf8.Valid(p.line) {
		return fmt.Errorf("%w: a line is not UTF-8: %q", errMalformed, p.line)
	}
	if len(p.line) == 0 {
		return p.dispatch()
	}
	name, value, _ := bytes.Cut(p.line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "": // a comment
		return nil
	case "event":
		p.name = string(value)
	case "data":
		if p.some {
			p.data = append(p.data, '\n')
		}
		p.data, p.some = append(p.data, value...), true
	case "id", "retry":
	default:
		return fmt.Errorf("%w: the line %q has no field that is known", errMalformed, p.line)
	}
	p.open = true
	return nil
}

// dispatch ends an event. An event without data is not one, and several
// libraries choke on what looks like it.
func (p *sseParser) dispatch() error {
	e := sseEvent{p.name, string(p.data)}
	some, open := p.some, p.open
	p.name, p.data, p.some, p.open = "", nil, false, false
	switch {
	case some:
		return p.each(e)
	case open:
		return fmt.Errorf("%w: an event without data", errMalformed)
	}
	return nil
}

func (p *sseParser) end() error {
	if len(p.line) > 0 || p.open {
		return fmt.Errorf("%w: it ends inside an event: %q", errMalformed, append(p.data, p.line...))
	}
	return nil
}
