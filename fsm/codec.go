package fsm

import (
	"encoding/binary"
	"errors"
)

// reader takes values off a byte slice. After the first fault it gives zeros
// and keeps the error, so that decoders need to look only once, at the end.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(msg string) {
	if r.err == nil {
		r.err = errors.New(msg)
	}
	r.b = nil
}

// finish returns the first fault; bytes that are left over are one too.
func (r *reader) finish() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("there are bytes after the end")
	}
	return r.err
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it ends too early")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("it ends within a number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("it ends within a number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fixed() uint64 {
	if len(r.b) < 8 {
		r.fail("it ends within a number")
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// below reads a number that must be smaller than bound.
func (r *reader) below(bound uint64, what string) uint64 {
	v := r.uint()
	if v >= bound {
		r.fail(what + " is out of range")
		return 0
	}
	return v
}

// count reads the number of items of at least size bytes each that follow. A
// number that cannot be true is a fault, so a hostile length allocates nothing.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.fail("a length is larger than what follows")
		return 0
	}
	return int(n)
}

func (r *reader) string() string { return r.stringLike("") }

// stringLike reads a string; if it equals s it is s.
func (r *reader) stringLike(s string) string {
	n := r.count(1)
	if b := r.b[:n]; string(b) != s {
		s = string(b)
	}
	r.b = r.b[n:]
	return s
}

// readList reads a count and as many items of at least size bytes each, nil for
// none. It grows as it reads, because an item may be much larger decoded.
func readList[T any](r *reader, size int, read func(*T)) []T {
	n := r.count(size)
	if n == 0 {
		return nil
	}
	list := make([]T, 0, min(n, 256))
	for range n {
		var item T
		if read(&item); r.err != nil {
			return nil
		}
		list = append(list, item)
	}
	return list
}

func putUint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

func putInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func putFixed(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

func putString(b []byte, s string) []byte { return append(putUint(b, uint64(len(s))), s...) }
