package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestAloneMarkIsFoundByTheNextProcess(t *testing.T) {
	dir := t.TempDir()
	marked, mark, err := aloneMark(dir)
	if err != nil || marked {
		t.Fatalf("a new directory: %v %v", marked, err)
	}
	for _, on := range []bool{true, true, false, false} {
		if err := mark(on); err != nil {
			t.Fatal(err)
		}
		if marked, _, err := aloneMark(dir); err != nil || marked != on {
			t.Errorf("after mark(%v) the next process finds %v, %v", on, marked, err)
		}
	}
}

func TestAMarkThatCannotBeMadeIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	var fails error
	mark := loudly(func(bool) error { return fails }, slog.New(slog.NewTextHandler(&log, nil)))
	for _, c := range []struct {
		name  string
		on    bool
		fails error
		lines int // logged so far
	}{
		{"made", true, nil, 0},
		{"not made", true, errors.New("read-only"), 1},
		{"not made again", true, errors.New("read-only"), 1},
		{"made at last", true, nil, 1},
		{"not taken back", false, errors.New("read-only"), 2},
	} {
		fails = c.fails
		if err := mark(c.on); !errors.Is(err, c.fails) {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := strings.Count(log.String(), "\n"); n != c.lines {
			t.Errorf("%s: %d lines, want %d: %s", c.name, n, c.lines, log.String())
		}
	}
}
