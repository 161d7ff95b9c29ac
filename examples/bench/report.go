package main

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"
)

// report writes the lines and remembers how many targets were missed.
type report struct {
	out             io.Writer
	targets, missed int
}

// section starts a group of lines and says what is measured.
func (r *report) section(format string, args ...any) {
	fmt.Fprintf(r.out, "\n"+format+"\n", args...)
}

// line prints a figure without a target.
func (r *report) line(name, figure string) {
	fmt.Fprintf(r.out, "  %-52s %20s\n", name, figure)
}

// judge prints a figure beside its target.
func (r *report) judge(name, figure, target string, ok bool) {
	verdict := "ok"
	r.targets++
	if !ok {
		verdict = "MISS"
		r.missed++
	}
	fmt.Fprintf(r.out, "  %-52s %20s   target %-14s %s\n", name, figure, target, verdict)
}

// close prints the verdict.
func (r *report) close() error {
	verdict := "all targets met"
	switch {
	case r.targets == 0:
		verdict = "nothing was judged"
	case r.missed > 0:
		verdict = fmt.Sprintf("%d MISSED; a busy machine is a common cause, repeat it on an idle one", r.missed)
	}
	_, err := fmt.Fprintf(r.out, "\n%d of %d targets met: %s\n", r.targets-r.missed, r.targets, verdict)
	return err
}

// perOp runs a Go benchmark three times and returns the median time and the
// allocations of one operation.
func perOp(f func(*testing.B)) (ns, allocs float64) {
	var times []float64
	for range 3 {
		result := testing.Benchmark(f)
		times = append(times, float64(result.T.Nanoseconds())/float64(result.N))
		allocs = float64(result.MemAllocs) / float64(result.N)
	}
	return median(times), allocs
}

// median of a list that is not empty; the list is sorted by it.
func median[T float64 | time.Duration](list []T) T {
	slices.Sort(list)
	return list[len(list)/2]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1000) }
