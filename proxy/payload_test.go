package proxy

import (
	"bytes"
	"io"
	"reflect"
	"testing"
)

func TestSmallBodiesGoUpInOneWrite(t *testing.T) {
	// The transport puts the body into the write of the headers only for a
	// reader of this type.
	known := reflect.TypeOf(io.NopCloser(bytes.NewReader(nil)))
	for _, c := range []struct {
		name  string
		size  int
		sized bool // its length was declared
		known bool
	}{
		{"small and declared", 100, true, true},
		{"small and not declared", 100, false, true},
		{"the largest small one", ownBody, true, true},
		{"large", ownBody + 1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pool buffers
			hint := int64(-1)
			if c.sized {
				hint = int64(c.size)
			}
			want := bytes.Repeat([]byte("x"), c.size)
			buf := pool.sized(hint)
			if err := buf.fill(bytes.NewReader(want), 1<<20, hint); err != nil {
				t.Fatal(err)
			}
			p := newPayload(&pool, buf)
			r := p.open()
			if got := reflect.TypeOf(r) == known; got != c.known {
				t.Errorf("the transport knows %T: %v, want %v", r, got, c.known)
			}
			p.release() // the transport may still read
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, c.size)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
