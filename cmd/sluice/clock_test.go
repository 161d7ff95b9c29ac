package main

import (
	"encoding/binary"
	"testing"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

func TestOnlyAClockThatIsRightIsTold(t *testing.T) {
	var mono time.Duration
	state, err := fsm.Open(fsm.Options{Mono: func() time.Duration { return mono }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() })
	a := &app{state: state}
	if b, err := a.answer(t.Context(), []byte(questionClock)); err != nil || len(b) != 0 {
		t.Errorf("a clock that nobody set is told: %v, %v", b, err)
	}
	state.SeedClock(limiter.Time(time.Hour))
	mono += time.Minute
	b, err := a.answer(t.Context(), []byte(questionClock))
	if err != nil || len(b) != 8 || binary.BigEndian.Uint64(b) != uint64(time.Hour+time.Minute) {
		t.Errorf("answer %v, %v", b, err)
	}
	if _, err := a.answer(t.Context(), []byte("weather")); err == nil {
		t.Error("an unknown question is answered")
	}
}
