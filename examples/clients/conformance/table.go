package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what a language made of the table; skipped says why it was not tried.
type report struct {
	language string
	skipped  string
	outcomes []outcome
}

// tally counts for the last line.
type tally struct{ passed, failed, skipped int }

// print writes a line for each case and way, a column for each language, then
// what failed and what was skipped, and why.
func print(out io.Writer, cases []Case, reports []report) tally {
	var sum tally
	var failures, skips []string
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "case\tfield\tway")
	for _, r := range reports {
		fmt.Fprint(w, "\t", r.language)
		if r.skipped != "" {
			skips = append(skips, fmt.Sprintf("%s: not installed: %s", r.language, r.skipped))
		}
	}
	fmt.Fprintln(w)
	for _, c := range cases {
		ways, missing := c.ways(abilities)
		skips = append(skips, missing...)
		for _, way := range ways {
			fmt.Fprintf(w, "%s\t%s\t%s", c.Name, c.Field, way)
			for _, r := range reports {
				word, failure, skip := r.cell(c, way)
				fmt.Fprint(w, "\t", word)
				sum.add(word)
				failures = append(failures, failure...)
				skips = append(skips, skip...)
			}
			fmt.Fprintln(w)
		}
	}
	_ = w.Flush() // to the terminal: nobody to tell
	list(out, "Skipped", grouped(skips))
	list(out, "Failed", failures)
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", sum.passed, sum.failed, sum.skipped)
	return sum
}

func (t *tally) add(word string) {
	switch word {
	case "ok":
		t.passed++
	case "FAIL":
		t.failed++
	default:
		t.skipped++
	}
}

// cell is the word that a language has for a case on a way, and what is to be
// said of it below.
func (r report) cell(c Case, way Way) (word string, failures, skips []string) {
	i := slices.IndexFunc(r.outcomes, func(o outcome) bool { return o.Case.Name == c.Name && o.Way == way })
	if i < 0 {
		return "skip", nil, nil
	}
	o := r.outcomes[i]
	switch {
	case o.Skip != "":
		return "skip", nil, []string{r.language + ": " + o.Skip}
	case len(o.Problems) > 0:
		return "FAIL", []string{fmt.Sprintf("%s / %s / %s:\n      %s", r.language, c.Name, way, strings.Join(o.Problems, "\n      "))}, nil
	}
	return "ok", nil, nil
}

// grouped says a thing that is true of many cases once.
func grouped(lines []string) []string {
	var order []string
	times := map[string]int{}
	for _, l := range lines {
		if times[l]++; times[l] == 1 {
			order = append(order, l)
		}
	}
	for i, l := range order {
		if times[l] > 1 {
			order[i] = fmt.Sprintf("%s (%d cases)", l, times[l])
		}
	}
	return order
}

func list(out io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	for _, l := range lines {
		fmt.Fprintln(out, "  *", l)
	}
}
