package fsm

import (
	"fmt"
	"math"
	"time"

	"sluice/limiter"
)

// A batch's answer is a count and, per decision: flags, saturation (8 bytes, if
// not 0), need (if not 0), pool, slots, a mask of the standings that say anything, these, and
// for a refusal scope, dimension and the two durations. Then a count and, per
// grant: flags, number, start, time to its end, and a standing.

const (
	decisionAdmitted  = 1 << 0
	decisionSaturated = 1 << 1
	decisionStrict    = 1 << 2
	decisionFinal     = 1 << 3
	decisionOversize  = 1 << 4
	decisionNeeds     = 1 << 5 // Need follows the saturation
	decisionFlags     = 1<<6 - 1
	grantStrict       = 1 << 0
	grantRoom         = 1 << 1 // Room is at the end
	minDecision       = 4
	minGrant          = 4
	numDimensions     = 3
)

// appendAnswer encodes a behind dst.
func appendAnswer(dst []byte, a *limiter.Answer) []byte {
	dst = putUint(dst, uint64(len(a.Decisions)))
	for i := range a.Decisions {
		dst = appendDecision(dst, &a.Decisions[i])
	}
	dst = putUint(dst, uint64(len(a.Grants)))
	for i := range a.Grants {
		dst = appendGrant(dst, &a.Grants[i])
	}
	return dst
}

func appendGrant(dst []byte, g *limiter.Grant) []byte {
	flags := byte(0)
	if g.Strict {
		flags |= grantStrict
	}
	if g.Room > 0 {
		flags |= grantRoom
	}
	dst = putUint(append(dst, flags), amount(g.N))
	dst = putInt(dst, int64(g.EndIn))
	dst = appendStanding(dst, &limiter.Standing{Start: g.Start, Limits: g.Limits, Used: g.Used})
	if g.Room > 0 {
		dst = putUint(dst, amount(g.Room))
	}
	return dst
}

func readGrant(r *reader, g *limiter.Grant) {
	flags := r.below((grantStrict|grantRoom)+1, "flags of a grant")
	g.Strict = flags&grantStrict != 0
	g.N = int64(r.below(maxAmount+1, "amount"))
	g.EndIn = time.Duration(r.int())
	var s limiter.Standing
	readStanding(r, &s)
	g.Start, g.Limits, g.Used = s.Start, s.Limits, s.Used
	if flags&grantRoom != 0 {
		g.Room = int64(r.below(maxAmount+1, "amount"))
	}
}

func appendDecision(dst []byte, d *limiter.Decision) []byte {
	var flags byte
	if d.Admitted {
		flags |= decisionAdmitted
	}
	if d.Saturation != 0 {
		flags |= decisionSaturated
	}
	if d.Strict {
		flags |= decisionStrict
	}
	if d.Final {
		flags |= decisionFinal
	}
	if d.Oversize {
		flags |= decisionOversize
	}
	if d.Need > 0 {
		flags |= decisionNeeds
	}
	dst = append(dst, flags)
	if d.Saturation != 0 {
		dst = putFixed(dst, math.Float64bits(d.Saturation))
	}
	if d.Need > 0 {
		dst = putUint(dst, amount(d.Need))
	}
	dst = putString(dst, d.Pool)
	dst = append(dst, byte(d.Slots))
	var mask byte
	for i := range d.Standings {
		if says(&d.Standings[i]) {
			mask |= 1 << i
		}
	}
	dst = append(dst, mask)
	for i := range d.Standings {
		if says(&d.Standings[i]) {
			dst = appendStanding(dst, &d.Standings[i])
		}
	}
	if !d.Admitted {
		dst = append(dst, byte(d.Scope), byte(d.Dimension))
		dst = putInt(putInt(dst, int64(d.RetryIn)), int64(d.ResetIn))
	}
	return dst
}

// says reports whether a standing differs from that of a scope without limits.
func says(s *limiter.Standing) bool {
	return s.Start != limiter.NoWindow || s.Limits.Any() || s.Used != (limiter.Used{})
}

func appendStanding(dst []byte, s *limiter.Standing) []byte {
	dst = putInt(dst, int64(s.Start))
	limits := [numDimensions]limiter.Limit{s.Limits.Requests, s.Limits.Tokens, s.Limits.Parallel}
	var mask byte
	for i, l := range limits {
		if l.IsSet() {
			mask |= 1 << i
		}
	}
	dst = append(dst, mask)
	for _, l := range limits {
		if n, ok := l.Get(); ok {
			dst = putUint(dst, uint64(n))
		}
	}
	for _, n := range []int64{s.Used.Requests, s.Used.Tokens, s.Used.Parallel} {
		dst = putInt(dst, n)
	}
	return dst
}

// readAnswer decodes a batch's answer. It shares no memory with b.
func readAnswer(b []byte) (*limiter.Answer, error) {
	r := &reader{b: b}
	pool := ""
	out := &limiter.Answer{Decisions: readList(r, minDecision, func(d *limiter.Decision) {
		readDecision(r, d, pool)
		pool = d.Pool
	})}
	out.Grants = readList(r, minGrant, func(g *limiter.Grant) { readGrant(r, g) })
	if err := r.finish(); err != nil {
		return nil, fmt.Errorf("batch answer: %w", err)
	}
	return out, nil
}

// readDecision reads one decision. Its pool is mostly the same as that of the
// one before, and then shares its memory.
func readDecision(r *reader, d *limiter.Decision, pool string) {
	flags := r.byte()
	if flags&^byte(decisionFlags) != 0 {
		r.fail("unknown flags of a decision")
	}
	d.Admitted = flags&decisionAdmitted != 0
	d.Strict, d.Final, d.Oversize = flags&decisionStrict != 0, flags&decisionFinal != 0, flags&decisionOversize != 0
	if flags&decisionSaturated != 0 {
		d.Saturation = math.Float64frombits(r.fixed())
	}
	if flags&decisionNeeds != 0 {
		d.Need = int64(r.below(maxAmount+1, "amount"))
	}
	d.Pool = r.stringLike(pool)
	d.Slots = limiter.SlotSet(r.byte())
	mask := r.byte()
	for i := range d.Standings {
		d.Standings[i].Start = limiter.NoWindow
		if mask&(1<<i) != 0 {
			readStanding(r, &d.Standings[i])
		}
	}
	if d.Admitted {
		return
	}
	d.Scope = limiter.Scope(r.byte())
	d.Dimension = limiter.Dimension(r.byte())
	if int(d.Scope) >= limiter.NumScopes || d.Dimension >= numDimensions {
		r.fail("unknown scope or dimension")
		d.Scope = 0
	}
	d.RetryIn, d.ResetIn = time.Duration(r.int()), time.Duration(r.int())
}

func readStanding(r *reader, s *limiter.Standing) {
	s.Start = limiter.Time(r.int())
	mask := r.byte()
	for i, l := range []*limiter.Limit{&s.Limits.Requests, &s.Limits.Tokens, &s.Limits.Parallel} {
		if mask&(1<<i) != 0 {
			*l = limiter.Of(int64(r.below(math.MaxInt64, "limit")))
		}
	}
	s.Used = limiter.Used{Requests: r.int(), Tokens: r.int(), Parallel: r.int()}
}
