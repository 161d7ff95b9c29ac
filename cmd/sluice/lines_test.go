package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestHeaderLines(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ConnContext: withLines, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if r.URL.Query().Has("lines") {
			lines := linesOf(r)
			*lines = append((*lines)[:0], "X-One: 1\r\nX-Two: 2\r\n"...)
		}
		size, _ := strconv.Atoi(r.URL.Query().Get("size"))
		w.Header().Set("X-Map", "yes")
		if _, err := w.Write(bytes.Repeat([]byte("b"), size)); err != nil {
			t.Error(err)
		}
	})}
	go srv.Serve(lineListener{l})
	t.Cleanup(func() { srv.Close() })
	for _, c := range []struct {
		name   string
		size   int
		lines  bool
		expect bool // the client waits for 100 Continue
	}{
		{"with lines", 10, true, false},
		{"the next answer on the connection has none", 10, false, false},
		{"a body larger than any buffer", 100_000, true, false},
		{"no body", 0, true, false},
		{"after an interim answer", 10, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := "http://" + l.Addr().String() + "/?size=" + strconv.Itoa(c.size)
			if c.lines {
				url += "&lines"
			}
			req, err := http.NewRequest(http.MethodPost, url, strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			if c.expect {
				req.Header.Set("Expect", "100-continue")
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || len(body) != c.size {
				t.Errorf("%d bytes, %v; want %d", len(body), err, c.size)
			}
			for name, value := range map[string]string{"X-One": "1", "X-Two": "2"} {
				if got := res.Header.Values(name); c.lines && (len(got) != 1 || got[0] != value) || !c.lines && len(got) > 0 {
					t.Errorf("%s: %q", name, got)
				}
			}
			if res.Header.Get("X-Map") != "yes" {
				t.Error("a header of the map is missing")
			}
		})
	}
}
