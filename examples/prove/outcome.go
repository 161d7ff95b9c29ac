package main

import (
	"errors"
	"fmt"
	"io"
)

// outcome is what came of the demand.
type outcome struct {
	sent     int64
	served   int64  // requests that the provider executed
	refused  int64  // 429
	lost     int64  // to the process that was killed, while it was not there
	failures int64  // any other answer, or none, from a node that lived
	first    string // the first of the failures
	killed   string // the node, and at how many served
}

func (o outcome) print(out io.Writer) {
	fmt.Fprintf(out, "  kill -9 of the leader          %s\n", o.killed)
	for _, l := range []struct {
		name string
		n    int64
		note string
	}{
		{"sent", o.sent, ""},
		{"served, as the provider counts", o.served, fmt.Sprintf("at most %d, at least %d", limit, least)},
		{"permits that died with the node", max(limit-o.served, 0), "counted as used, and served to nobody"},
		{"refused with 429", o.refused, ""},
		{"sent to the dead process", o.lost, "nobody listened, or its answer was cut off"},
		{"failures of living nodes", o.failures, o.first},
	} {
		fmt.Fprintf(out, "  %-32s %6d   %s\n", l.name, l.n, l.note)
	}
}

// verdict returns what is wrong with the outcome, nil if nothing is.
func (o outcome) verdict() error {
	var errs []error
	if o.sent < demand {
		errs = append(errs, fmt.Errorf("only %d of %d requests were sent", o.sent, demand))
	}
	if o.served > limit {
		errs = append(errs, fmt.Errorf("%d requests were served, more than the limit of %d", o.served, limit))
	}
	if o.served < least {
		errs = append(errs, fmt.Errorf("only %d requests were served of a limit of %d", o.served, limit))
	}
	if o.failures > 0 {
		errs = append(errs, fmt.Errorf("living nodes failed %d requests, the first with: %s", o.failures, o.first))
	}
	return errors.Join(errs...)
}
