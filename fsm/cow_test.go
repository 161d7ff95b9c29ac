package fsm

import (
	"maps"
	"math/rand/v2"
	"testing"
)

func TestCowBehavesLikeAMapAndOldCopiesStay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var c *cow[int]
	model := map[string]int{}
	type version struct {
		c     *cow[int]
		model map[string]int
	}
	var kept []version
	for i := range 3000 {
		key := nth(r.IntN(700))
		if r.IntN(3) == 0 {
			c = c.without(key)
			delete(model, key)
		} else {
			c = c.with(key, i)
			model[key] = i
		}
		if i%300 == 0 {
			kept = append(kept, version{c, maps.Clone(model)})
		}
	}
	kept = append(kept, version{c, model})
	for _, v := range kept {
		if v.c.len() != len(v.model) || !maps.Equal(maps.Collect(v.c.all), v.model) {
			t.Fatalf("a copy of %d entries holds %d", len(v.model), v.c.len())
		}
		for k, want := range v.model {
			if got, ok := v.c.get(k); !ok || got != want {
				t.Fatalf("%s is %d, want %d", k, got, want)
			}
		}
	}
	if _, ok := c.get("absent"); ok {
		t.Error("an absent key was found")
	}
}
