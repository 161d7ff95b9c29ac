package main

import (
	"io"
	"log/slog"

	"sluice/cmd/sluice/config"
)

// newLogger writes to w as [log] says.
func newLogger(l config.Log, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: l.Level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
