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
			played := 0
			for _, o := range outcomes {
				if o.Skip != "" { // another client plays it
					t.Logf("%s/%s is not this client's: %s", o.Case.Name, o.Way, o.Skip)
					continue
				}
				played++
				t.Run(o.Case.Name+"/"+string(o.Way), func(t *testing.T) {
					for _, p := range o.Problems {
						t.Error(p)
					}
				})
			}
			if played < len(outcomes)*3/4 {
				t.Errorf("only %d of %d cases were played", played, len(outcomes))
			}
		})
	}
}
