package main

import (
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		o    outcome
		want string // part of the error; "" for none
	}{
		{"all of the limit", outcome{sent: demand, served: limit}, ""},
		{"permits died with the node", outcome{sent: demand, served: least, lost: 50}, ""},
		{"one too many", outcome{sent: demand, served: limit + 1}, "more than the limit"},
		{"far too few", outcome{sent: demand, served: least - 1}, "only 799 requests were served"},
		{"less was asked for", outcome{sent: demand - 1, served: limit}, "were sent"},
		{"a living node failed", outcome{sent: demand, served: limit, failures: 1, first: "status 500"}, "status 500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.o.verdict()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("verdict is %v, want an error with %q", err, c.want)
			}
		})
	}
}
