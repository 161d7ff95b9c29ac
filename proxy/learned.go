package proxy

import (
	"math"
	"sync"
)

// learned knows how long the answers of this node were, by key and model. It is
// an estimate and each node has its own; it is lost at a restart.
type learned struct {
	mu  sync.Mutex
	all map[habit]*lengths
}

// habit is who asks what.
type habit struct{ key, model string }

// lengths counts answers by their length, in steps of a fifth. Its counters are
// halved now and then, so that what was long ago counts little.
type lengths struct {
	n    uint16
	step [lengthSteps]uint8
}

const (
	lengthSteps = 96  // up to 1.2^95 tokens, beyond any answer
	lengthRatio = 1.2 // of one step to the next
	fewLengths  = 20  // below this many nothing is known
	manyLengths = 250 // at this many all counters are halved; they must fit a byte
	maxHabits   = 10_000
)

// add notes an answer of so many tokens.
func (l *learned) add(h habit, tokens int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.all[h]
	if c == nil {
		if len(l.all) >= maxHabits {
			for old := range l.all { // any one
				delete(l.all, old)
				break
			}
		}
		if l.all == nil {
			l.all = make(map[habit]*lengths)
		}
		c = &lengths{}
		l.all[h] = c
	}
	c.add(tokens)
}

// p95 returns a length that 95 of 100 answers do not exceed; known is false
// while there were too few.
func (l *learned) p95(h habit) (tokens int64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.all[h]
	if c == nil || c.n < fewLengths {
		return 0, false
	}
	return c.p95(), true
}

func (c *lengths) add(tokens int64) {
	if c.n >= manyLengths {
		c.n = 0
		for i := range c.step {
			c.step[i] /= 2
			c.n += uint16(c.step[i])
		}
	}
	c.n++
	c.step[stepOf(tokens)]++
}

// stepOf returns the first step whose bound is not below tokens.
func stepOf(tokens int64) int {
	if tokens <= 1 {
		return 0
	}
	i := int(math.Ceil(math.Log(float64(tokens))/math.Log(lengthRatio) - 1e-9))
	return min(i, lengthSteps-1)
}

func (c *lengths) p95() int64 {
	above := int(c.n) / 20
	for i := lengthSteps - 1; i > 0; i-- {
		if above -= int(c.step[i]); above < 0 {
			return int64(math.Pow(lengthRatio, float64(i)) + 1e-6)
		}
	}
	return 1
}
