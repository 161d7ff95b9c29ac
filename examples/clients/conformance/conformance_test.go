package main

import (
	"testing"

	"sluice/examples/harness"
)

// The Go libraries and the strict reader always run; Python and Node need more
// than a Go toolchain: see main.go.
func TestConformance(t *testing.T) {
	var builder harness.Builder
	binary, err := builder.Binary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := builder.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, l := range inProcess() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			outcomes, err := playAll(t.Context(), l, all(), binary, [2]int{}, 4)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				t.Run(o.Case.Name+"/"+string(o.Way), func(t *testing.T) {
					for _, p := range o.Problems {
						t.Error(p)
					}
					if o.Skip != "" {
						t.Skip(o.Skip)
					}
				})
			}
		})
	}
}
