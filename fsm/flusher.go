package fsm

import (
	"sync"
	"time"
)

// flusher calls a function now and then until it is stopped. The zero flusher
// is one that never starts.
type flusher struct {
	quit chan struct{}
	wg   sync.WaitGroup
}

func (f *flusher) start(every time.Duration, work func()) {
	f.quit = make(chan struct{})
	f.wg.Go(func() {
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				work()
			case <-f.quit:
				return
			}
		}
	})
}

// stop returns when the last call is over. It must be called at most once.
func (f *flusher) stop() {
	if f.quit != nil {
		close(f.quit)
	}
	f.wg.Wait()
}
