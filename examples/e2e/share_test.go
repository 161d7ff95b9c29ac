package e2e

import (
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"sluice/examples/harness"
)

func TestStrictSharesAreExactFor600ConcurrentRequestsOverThreeNodes(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	c := start(t, harness.Options{Nodes: 3, Config: config(time.Minute, model(up, "m", "rpm = 180")+`
[priority_reservation]
p1 = 0.5
p2 = 0.3
p3 = 0.2

[priority_reservation_settings]
saturation_threshold = 0.0
`)})
	classes := []string{"p1", "p2", "p3"}
	keys := make(map[string]string)
	for _, class := range classes {
		keys[class] = createKey(t, c.Nodes[0], harness.KeySpec{Priority: class}).Secret
	}

	var (
		mu       sync.Mutex
		admitted = make(map[string]int)
		refused  int
		wg       sync.WaitGroup
		begin    = make(chan struct{})
	)
	for i := range 600 {
		class, node := classes[i%3], c.Nodes[i/3%3]
		wg.Go(func() {
			<-begin
			r, err := node.As(keys[class]).Chat(t.Context(), "m")
			if err != nil {
				t.Errorf("%s on %s: %v", class, node.ID, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch r.Status {
			case http.StatusOK:
				admitted[class]++
			case http.StatusTooManyRequests:
				refused++
			default:
				t.Errorf("%s on %s: status %d: %s", class, node.ID, r.Status, r.Body)
			}
		})
	}
	close(begin)
	wg.Wait()

	if want := map[string]int{"p1": 90, "p2": 54, "p3": 36}; !maps.Equal(admitted, want) || refused != 420 {
		t.Errorf("admitted %v and refused %d, want %v and 420", admitted, refused, want)
	}
	if n := up.Count("m"); n != 180 {
		t.Errorf("the provider executed %d requests, want 180", n)
	}
	for _, n := range c.Nodes {
		eventually(t, 5*time.Second, n.ID+" shows 180 used", func() bool {
			l, err := n.Admin().Limits(t.Context(), "m")
			return err == nil && l.RPM.Used == 180
		})
	}
}
