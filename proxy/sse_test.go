package proxy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// cutUp returns the units of a stream and what is left, reading size bytes at
// a time.
func cutUp(t testing.TB, stream []byte, size, limit int) (units []string, rest string, err error) {
	t.Helper()
	var src io.Reader = bytes.NewReader(stream)
	if size == 1 {
		src = iotest.OneByteReader(src)
	} else if size > 0 {
		src = &sizedReader{src, size}
	}
	r := newEventReader(src, make([]byte, 0, 16), limit)
	for {
		if err = r.fill(); err != nil {
			break
		}
		for {
			u, ok := r.next()
			if !ok {
				break
			}
			units = append(units, string(u.raw))
		}
	}
	return units, string(r.rest().raw), err
}

type sizedReader struct {
	src  io.Reader
	size int
}

func (r *sizedReader) Read(p []byte) (int, error) { return r.src.Read(p[:min(len(p), r.size)]) }

func TestEventReaderCutsUnits(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []string
		rest         string
	}{
		{"LF", "data: a\n\ndata: b\n\n", []string{"data: a\n\n", "data: b\n\n"}, ""},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"data: a\r\n\r\n", "data: b\r\n\r\n"}, ""},
		{"CR", "data: a\r\rdata: b\r\r", []string{"data: a\r\r", "data: b\r\r"}, ""},
		{"mixed", "data: a\r\n\ndata: b\n\r\n", []string{"data: a\r\n\n", "data: b\n\r\n"}, ""},
		{"comment is relayed at its line's end", ": ping\ndata: a\n\n", []string{": ping\n", "data: a\n\n"}, ""},
		{"comment inside an event stays there", "event: x\n: c\ndata: a\n\n", []string{"event: x\n: c\ndata: a\n\n"}, ""},
		{"blank lines stand alone", "\n\ndata: a\n\n\n", []string{"\n", "\n", "data: a\n\n", "\n"}, ""},
		{"BOM goes with the first unit", "\ufeffdata: a\n\n", []string{"\ufeffdata: a\n\n"}, ""},
		{"BOM before a comment", "\ufeff: c\n\ndata: a\n\n", nil, ""},
		{"unterminated", "data: a\n\ndata: b", []string{"data: a\n\n"}, "data: b"},
		{"one line feed short", "data: b\n", nil, "data: b\n"},
		{"several data lines", "data: {\ndata: }\n\n", []string{"data: {\ndata: }\n\n"}, ""},
		{"nothing", "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			units, rest, err := cutUp(t, []byte(c.stream), 0, 1<<20)
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if c.want != nil && !slices.Equal(units, c.want) || rest != c.rest {
				t.Errorf("units %q rest %q; want %q, %q", units, rest, c.want, c.rest)
			}
			for size := 1; size < 6; size++ {
				again, rest, _ := cutUp(t, []byte(c.stream), size, 1<<20)
				if got := strings.Join(again, "") + rest; got != c.stream {
					t.Errorf("by %d bytes: %q", size, got)
				}
			}
		})
	}
}

func TestEventReaderPassesHugeLinesAndStopsAtTheCap(t *testing.T) {
	for _, n := range []int{70 << 10, 1500 << 10, 12 << 20} {
		event := "data: " + strings.Repeat("x", n) + "\n\n"
		units, _, err := cutUp(t, []byte(event+"data: [DONE]\n\n"), 32<<10, 16<<20)
		if !errors.Is(err, io.EOF) || len(units) != 2 || units[0] != event {
			t.Errorf("%d bytes: %d units, %v", n, len(units), err)
		}
	}
	if _, _, err := cutUp(t, bytes.Repeat([]byte("x"), 100<<10), 1000, 64<<10); !errors.Is(err, errEventTooLarge) {
		t.Errorf("over the cap: %v", err)
	}
}

func TestEventData(t *testing.T) {
	for _, c := range []struct {
		name, raw, want string
		lines           int
	}{
		{"usual", "data: x\n\n", "x", 1},
		{"no space", "data:x\n\n", "x", 1},
		{"only one space goes", "data:  x\n\n", " x", 1},
		{"CRLF", "data: x\r\n\r\n", "x", 1},
		{"several lines", "data: {\nid: 1\ndata: }\n\n", "{\n}", 2},
		{"three lines", "data: 1\ndata: 2\ndata: 3\n\n", "1\n2\n3", 3},
		{"no colon", "data\n\n", "", 1},
		{"BOM", "\ufeffdata: x\n\n", "x", 1},
		{"other field", "database: x\n\n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, lines := eventData([]byte(c.raw), nil)
			if string(got) != c.want || lines != c.lines {
				t.Errorf("got %q, %d", got, lines)
			}
		})
	}
}

func FuzzEventReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n: c\r\n\r\ndata:b\r\r\n", "\ufeffdata: {}\n\n", "\r\n\r\n\n\r", "event: x\ndata: 1\ndata: 2\n\nda"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		size = max(1, size%64)
		whole, wholeRest, _ := cutUp(t, stream, 0, 1<<20)
		parts, rest, _ := cutUp(t, stream, size, 1<<20)
		if strings.Join(whole, "")+wholeRest != string(stream) || strings.Join(parts, "")+rest != string(stream) {
			t.Fatalf("bytes changed: %q %q %q", stream, whole, parts)
		}
		if a, b := payloads(whole), payloads(parts); !slices.Equal(a, b) {
			t.Fatalf("events differ by %d bytes: %q, %q", size, a, b)
		}
	})
}

// payloads returns the data of the units that have any.
func payloads(units []string) []string {
	var out []string
	for _, u := range units {
		if data, lines := eventData([]byte(u), nil); lines > 0 {
			out = append(out, string(data))
		}
	}
	return out
}
