package main

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"sluice/limiter"
)

// questionClock asks a member for its ledger clock. The answer is eight bytes,
// big-endian, or none from a member that does not know it either.
const questionClock = "clock"

// clockTime is how long a starting node waits for the others' answers.
const clockTime = time.Second

// answer serves the questions of other nodes.
func (a *app) answer(_ context.Context, question []byte) ([]byte, error) {
	if string(question) != questionClock {
		return nil, errors.New("the question is not known to this version")
	}
	if !a.state.ClockLive() {
		return nil, nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(a.state.ClockNow())), nil
}

// seedClock gives a restarted node the ledger clock of those that kept
// running. If none did, the whole cluster was stopped, and the time of that
// stop has passed for its windows too. A node without state has nothing to
// seed: its clock comes with the log.
func (a *app) seedClock(ctx context.Context) error {
	select {
	case <-a.node.Formed():
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	others := a.others(ctx)
	answers := make(chan limiter.Time, len(others))
	var asking sync.WaitGroup
	for _, id := range others {
		asking.Go(func() {
			b, err := a.node.Ask(ctx, id, []byte(questionClock))
			if err == nil && len(b) == 8 {
				answers <- limiter.Time(binary.BigEndian.Uint64(b))
			}
		})
	}
	go func() {
		asking.Wait()
		close(answers)
	}()
	// The first answer is as good as any: all clocks that run are close, and
	// the estimate is only ever raised.
	if t, ok := <-answers; ok {
		a.state.SeedClock(t)
		return nil
	}
	a.state.UseWallClock()
	return nil
}
