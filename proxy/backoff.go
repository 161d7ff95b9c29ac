package proxy

import (
	"math/bits"
	"time"

	"sluice/fsm"
)

// delay returns how long to wait before the n-th retry (from 0) on a deployment
// that has just failed. before is the wait before the last one, 0 if there was
// none; floor is what the provider asks for; a and b are uniform.
//
// The floor is what the provider gives everybody, so those who wait for it come
// back at different moments behind it, and never before.
func delay(r *fsm.RetrySettings, n int64, before, floor time.Duration, a, b uint64) time.Duration {
	top := doubled(r.BaseDelay, n, r.MaxDelay)
	var d time.Duration
	switch r.Jitter {
	case fsm.JitterNone:
		d = top
	case fsm.JitterEqual:
		d = top/2 + uniform(0, top-top/2, a)
	case fsm.JitterDecorrelated:
		d = uniform(r.BaseDelay, min(3*max(before, r.BaseDelay), r.MaxDelay), a)
	default:
		d = uniform(r.MinDelay, top, a)
	}
	if d = max(d, r.MinDelay); d > floor {
		return d
	}
	if r.Jitter == fsm.JitterNone {
		return floor
	}
	return floor + uniform(0, min(floor, r.BaseDelay), b)
}

// doubled returns base × 2^n, at most most.
func doubled(base time.Duration, n int64, most time.Duration) time.Duration {
	for ; n > 0 && base < most; n-- {
		base *= 2
	}
	return min(base, most)
}

// uniform returns a duration from lo to hi, both included; lo where hi is less.
func uniform(lo, hi time.Duration, random uint64) time.Duration {
	if hi <= lo {
		return lo
	}
	at, _ := bits.Mul64(random, uint64(hi-lo)+1)
	return lo + time.Duration(at)
}
