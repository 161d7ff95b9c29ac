package proxy

import (
	"bytes"
	"errors"
	"io"
)

var errEventTooLarge = errors.New("event larger than the cap")

// unit is the smallest run of a stream's bytes that is relayed as one: an
// event with the blank line that ends it, or a comment or blank line before
// one. raw is valid until the next fill.
type unit struct {
	raw  []byte
	data bool // an event with at least one data line
	tail bool // the LF of the CR LF that ended the unit before, come late
}

// eventReader cuts an event stream into units without changing a byte. Lines
// may be as long as the cap on an event allows.
type eventReader struct {
	src io.Reader
	buf []byte
	max int // bytes of one event

	start int  // of the unit being read
	line  int  // start of the line being read
	pos   int  // scanned up to here
	data  bool // the unit has a data line
	noLF  int  // there is no LF from pos up to here
	cr    bool // the buffer ends in a CR that ended a line: an LF that follows belongs to it
	bom   bool // the start of the stream is behind
}

func newEventReader(src io.Reader, buf []byte, limit int) *eventReader {
	return &eventReader{src: src, buf: buf[:0], max: limit}
}

// fill reads once from the source. It returns errEventTooLarge when the unit
// being read has passed the cap, and the source's error otherwise.
func (r *eventReader) fill() error {
	if r.start > 0 {
		n := copy(r.buf, r.buf[r.start:])
		r.buf = r.buf[:n]
		r.line -= r.start
		r.pos -= r.start
		r.noLF -= r.start
		r.start = 0
	}
	if len(r.buf) > r.max {
		return errEventTooLarge
	}
	if len(r.buf) == cap(r.buf) {
		grown := make([]byte, len(r.buf), max(2*cap(r.buf), firstBuffer))
		copy(grown, r.buf)
		r.buf = grown
	}
	n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 {
		// The error, if it lasts, comes again with the next read.
		return nil
	}
	return err
}

// next returns the next whole unit that the buffer holds.
func (r *eventReader) next() (unit, bool) {
	if !r.bom && !r.skipBOM() {
		return unit{}, false
	}
	if r.cr && r.pos < len(r.buf) {
		r.cr = false
		if r.buf[r.pos] == '\n' {
			r.pos++
			r.line = r.pos
			if r.start == r.pos-1 { // what its CR ended has gone out already
				u := r.cut()
				u.tail = true
				return u, true
			}
		}
	}
	for {
		end, ok := r.lineEnd()
		if !ok {
			return unit{}, false
		}
		first := r.line == r.start
		line := r.buf[r.line:end]
		r.line = r.pos
		switch {
		case len(line) == 0: // ends an event, or stands alone
			return r.cut(), true
		case line[0] == ':' && first:
			return r.cut(), true
		case isData(line):
			r.data = true
		}
	}
}

// skipBOM steps over a byte order mark: it is relayed with the first unit but
// is no part of its first line.
func (r *eventReader) skipBOM() bool {
	const mark = "\xef\xbb\xbf"
	switch have := r.buf[:min(len(r.buf), len(mark))]; {
	case string(have) == mark:
		r.line, r.pos = len(mark), len(mark)
	case len(have) < len(mark) && mark[:len(have)] == string(have):
		return false
	}
	r.bom = true
	return true
}

// lineEnd finds the end of the line's content and moves pos behind its
// terminator: LF, CR, or CR LF.
func (r *eventReader) lineEnd() (int, bool) {
	rest := r.buf[r.pos:]
	lf := r.nextLF() - r.pos
	if lf >= 0 {
		rest = rest[:lf]
	}
	if cr := bytes.IndexByte(rest, '\r'); cr >= 0 {
		end := r.pos + cr
		r.pos = end + 1
		if cr+1 == lf {
			r.pos++
		}
		r.cr = r.pos == len(r.buf) && cr+1 != lf
		return end, true
	}
	if lf < 0 {
		r.pos = len(r.buf)
		return 0, false
	}
	end := r.pos + lf
	r.pos = end + 1
	return end, true
}

// nextLF returns where the next LF is, -1 if there is none. Lines may end in CR
// alone: no byte is looked at twice for it.
func (r *eventReader) nextLF() int {
	from := max(r.pos, r.noLF)
	i := bytes.IndexByte(r.buf[from:], '\n')
	if i < 0 {
		r.noLF = len(r.buf)
		return -1
	}
	r.noLF = from + i
	return r.noLF
}

// cut ends the unit at pos.
func (r *eventReader) cut() unit {
	u := unit{raw: r.buf[r.start:r.pos], data: r.data}
	r.start, r.line, r.data = r.pos, r.pos, false
	return u
}

// rest returns what is left when the source has ended: the beginning of a unit.
func (r *eventReader) rest() unit {
	if isData(r.buf[min(r.line, len(r.buf)):]) {
		r.data = true
	}
	return unit{raw: r.buf[r.start:], data: r.data}
}

func isData(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("data"))
	return ok && (len(rest) == 0 || rest[0] == ':')
}

// eventData returns the data of an event: the content of its data lines, put
// together with line feeds in scratch if there are several. lines is their number.
func eventData(raw, scratch []byte) (data []byte, lines int) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	for line := range splitLines(raw) {
		if !isData(line) {
			continue
		}
		value := bytes.TrimPrefix(line[len("data"):], []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch lines++; lines {
		case 1:
			data = value
		case 2:
			scratch = append(scratch[:0], data...)
			fallthrough
		default:
			scratch = append(append(scratch, '\n'), value...)
			data = scratch
		}
	}
	return data, lines
}

// splitLines yields the lines of raw without their terminators. Empty lines may
// be left out.
func splitLines(raw []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		lf := -1 // the next; no byte is looked at twice for it
		for at := 0; at < len(raw); {
			if lf < at {
				if lf = bytes.IndexByte(raw[at:], '\n'); lf < 0 {
					lf = len(raw) - at
				}
				lf += at
			}
			end := lf
			if i := bytes.IndexByte(raw[at:lf], '\r'); i >= 0 {
				end = at + i
			}
			if end > at && !yield(raw[at:end]) {
				return
			}
			at = end + 1
		}
	}
}
