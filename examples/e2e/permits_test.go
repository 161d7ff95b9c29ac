package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/examples/harness"
)

// flood sends n requests from so many workers, the i-th of them to the node and
// with the key that pick says. Anything but 200 and 429 fails the test.
func flood(t *testing.T, n, workers int, model string, pick func(i int) (*harness.Node, string)) (served int64) {
	t.Helper()
	var next, admitted atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				node, key := pick(i)
				r, err := node.As(key).Chat(t.Context(), model)
				switch {
				case err != nil:
					t.Errorf("%s: %v", node.ID, err)
				case r.Status == http.StatusOK:
					admitted.Add(1)
				case r.Status != http.StatusTooManyRequests:
					t.Errorf("%s: status %d: %s", node.ID, r.Status, r.Body)
				}
				if err == nil {
					saneLimitHeaders(t, r)
				}
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}

// saneLimitHeaders checks that what an answer says of limits can be true.
func saneLimitHeaders(t *testing.T, r *harness.Reply) {
	t.Helper()
	for name := range r.Header {
		if !strings.HasPrefix(name, "X-Ratelimit-") || !strings.Contains(name, "-Remaining-") {
			continue
		}
		limit, err := strconv.ParseInt(r.Header.Get(strings.Replace(name, "-Remaining-", "-Limit-", 1)), 10, 64)
		left, lerr := strconv.ParseInt(r.Header.Get(name), 10, 64)
		if err != nil || lerr != nil || left < 0 || left > limit {
			t.Errorf("%s: %q of limit %d", name, r.Header.Get(name), limit)
		}
	}
	if r.Status != http.StatusTooManyRequests {
		return
	}
	if after, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || after < 1 || after > 300 {
		t.Errorf("retry-after %q in a window of 300 s", r.Header.Get("Retry-After"))
	}
}

func createKeys(t *testing.T, c *harness.Cluster, n int, spec harness.KeySpec) []string {
	t.Helper()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = createKey(t, c.Nodes[0], spec).Secret
	}
	return keys
}

func TestSmallLimitsAndSkewedDemandAreServedExactly(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	small := []int64{1, 2, 5, 10}
	text := model(up, "skewed", "rpm = 300") + model(up, "wide", "")
	for _, limit := range small {
		text += model(up, fmt.Sprint("small-", limit), fmt.Sprint("rpm = ", limit))
	}
	c := start(t, harness.Options{Nodes: 5, Config: config(5*time.Minute, text)})
	keys := createKeys(t, c, 10, harness.KeySpec{})
	for _, limit := range small {
		name := fmt.Sprint("small-", limit)
		flood(t, 200, 200, name, func(i int) (*harness.Node, string) { return c.Nodes[i%5], keys[i/5%10] })
		if n := up.Count(name); n != limit {
			t.Errorf("limit %d: the provider executed %d of one burst over five nodes", limit, n)
		}
	}
	// Eight of ten requests come to one node, and 20 times what may be served.
	flood(t, 20*300, 40, "skewed", func(i int) (*harness.Node, string) { return c.Nodes[max(i%10-7, 0)], keys[i/10%10] })
	if n := up.Count("skewed"); n > 300 || n < 291 {
		t.Errorf("the provider executed %d of 300 although 6000 were sent", n)
	}
	// Keys that have limits of their own, from everywhere at once.
	limit := int64(20)
	limited := createKeys(t, c, 20, harness.KeySpec{RPM: &limit})
	served := flood(t, 20*60, 60, "wide", func(i int) (*harness.Node, string) { return c.Nodes[i%5], limited[i/5%20] })
	if n := up.Count("wide"); served != 20*limit || n != served {
		t.Errorf("20 keys of 20 requests were served %d, the provider executed %d", served, n)
	}
}

func TestLimitsAndPermitsChangeInTheMiddleOfAWindow(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	with := func(rpm int64, more string) string {
		return config(5*time.Minute, model(up, "m", fmt.Sprint("rpm = ", rpm))+more)
	}
	c := start(t, harness.Options{Nodes: 3, Config: with(100, "")})
	keys := createKeys(t, c, 10, harness.KeySpec{})
	pick := func(i int) (*harness.Node, string) { return c.Nodes[i%3], keys[i/3%10] }
	flood(t, 400, 20, "m", pick)

	most := int64(100)
	for i, change := range []struct {
		rpm  int64
		more string
	}{
		{200, ""},
		{300, "\n[limits]\nlease_ttl = \"0s\"\n"},
		{400, "\n[limits]\nlease_ttl = \"10s\"\n"},
		{50, ""}, // below what is used: nothing more
		{500, "\n[priority_reservation_settings]\nsaturation_check_cache_ttl = 0\n"},
		{600, "\n[priority_reservation]\np1 = 0.5\n[priority_reservation_settings]\ndefault_priority = 1.0\n"},
	} {
		// While all are refused, and remember it.
		var wg sync.WaitGroup
		wg.Go(func() { flood(t, 1500, 20, "m", pick) })
		if err := c.Nodes[i%3].ApplyConfig(t.Context(), with(change.rpm, change.more)); err != nil {
			t.Error(err)
		}
		wg.Wait()
		most = max(most, change.rpm)
		// A new limit acts on the next request on each node, once it has it.
		eventually(t, 5*time.Second, fmt.Sprintf("%d are executed after limit %d %s", most, change.rpm, change.more), func() bool {
			flood(t, 60, 20, "m", pick)
			return up.Count("m") >= most
		})
		if n := up.Count("m"); n != most {
			t.Fatalf("the provider executed %d, the highest limit so far is %d", n, most)
		}
	}
}

func TestPermitsInHandOutliveTheMajorityAndNoLimitIsExceeded(t *testing.T) {
	t.Parallel()
	const limit = 3000
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(5*time.Minute, model(up, "m", fmt.Sprint("rpm = ", limit))+
		"\n[limits]\non_no_quorum = \"deny\"\nlease_ttl = \"20s\"\n")})
	key := createKey(t, c.Nodes[0], harness.KeySpec{}).Secret
	flood(t, limit/3, 12, "m", func(i int) (*harness.Node, string) { return c.Nodes[i%3], key })

	last := c.Nodes[0]
	for _, n := range c.Others(last) {
		kill(t, n)
	}
	byPermit := 0
	for r := chat(t, last, key, "m"); ; r = chat(t, last, key, "m") {
		if r.Status == http.StatusServiceUnavailable && r.LimitedBy() == "quorum" {
			break
		}
		if r.Status != http.StatusOK {
			t.Fatalf("without a majority: status %d: %s", r.Status, r.Body)
		}
		if byPermit++; byPermit > limit/stranded {
			t.Fatal("a node alone admits more than it may hold")
		}
	}
	t.Logf("%d were served by permits after the majority was gone", byPermit)

	if err := c.Restart(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "requests are counted again", func() bool { return chat(t, last, key, "m").Status == http.StatusOK })
	flood(t, 2*limit, 24, "m", func(i int) (*harness.Node, string) { return c.Nodes[i%3], key })
	if n := up.Count("m"); n > limit || n < limit-2*limit/stranded {
		t.Errorf("the provider executed %d of %d", n, limit)
	}
}
