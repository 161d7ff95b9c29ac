package fsm

import (
	"fmt"
	"slices"
	"time"

	"sluice/limiter"
)

// Batches are most of the log, so they are binary: varints, and every string
// once per batch. A batch is
//
//	strings: count, then length and bytes of each
//	node(ref) epoch seq
//	settles: count, then ticket, mask of starts, starts, pool(ref), slots, count, usage
//	returns: count, then scope, id(ref), model(ref), start, number
//	reserves: count, then ticket
//	extras: 1 for held, 2 for reserved, 4 for reports, or their sum
//	held: for each reservation mask of starts, starts
//	asks: count, then scope, id(ref), model(ref), want, parts, duration
//	reserved: for each reservation its estimate of input and output, for each settlement what was reserved
//	reports: count, then scope, id(ref), model(ref), requests, tokens, slots, age
//
// where ref is an index into the strings and a ticket is four of them.

// maxAmount bounds counts and tokens, so that sums cannot overflow.
const maxAmount = 1 << 53

// appendBatch encodes b behind dst. Amounts outside 0..maxAmount are cut.
func appendBatch(dst []byte, b *limiter.Batch) []byte {
	w := &batchWriter{refs: map[string]uint64{}}
	w.str(b.Node)
	w.buf = putUint(w.buf, b.Epoch)
	w.buf = putUint(w.buf, b.Seq)
	w.buf = putUint(w.buf, uint64(len(b.Settles)))
	for i := range b.Settles {
		w.settle(&b.Settles[i])
	}
	w.buf = putUint(w.buf, uint64(len(b.Returns)))
	for i := range b.Returns {
		r := &b.Returns[i]
		w.ref(&r.Ref)
		w.buf = putInt(w.buf, int64(r.Start))
		w.buf = putUint(w.buf, amount(r.N))
	}
	w.buf = putUint(w.buf, uint64(len(b.Reserves)))
	for i := range b.Reserves {
		w.ticket(&b.Reserves[i])
	}
	extras := byte(0)
	if b.Held != nil {
		extras |= extraHeld
	}
	if reserves(b) {
		extras |= extraReserved
	}
	if len(b.Reports) > 0 {
		extras |= extraReports
	}
	w.buf = append(w.buf, extras)
	w.held(b.Held)
	w.buf = putUint(w.buf, uint64(len(b.Grants)))
	for i := range b.Grants {
		a := &b.Grants[i]
		w.ref(&a.Ref)
		w.buf = putUint(putUint(putUint(w.buf, amount(a.Want)), amount(a.Parts)), amount(int64(a.For)))
	}
	if extras&extraReserved != 0 {
		w.reserved(b)
	}
	if extras&extraReports != 0 {
		w.reports(b.Reports)
	}
	dst = putUint(dst, uint64(len(w.strings)))
	for _, s := range w.strings {
		dst = putString(dst, s)
	}
	return append(dst, w.buf...)
}

type batchWriter struct {
	buf     []byte
	strings []string
	refs    map[string]uint64
}

func (w *batchWriter) str(s string) {
	ref, ok := w.refs[s]
	if !ok {
		ref = uint64(len(w.strings))
		w.refs[s] = ref
		w.strings = append(w.strings, s)
	}
	w.buf = putUint(w.buf, ref)
}

func (w *batchWriter) ticket(t *limiter.Ticket) {
	w.str(t.Model)
	w.str(t.Key)
	w.str(t.Team)
	w.str(t.Priority)
}

func (w *batchWriter) settle(s *limiter.Settle) {
	w.ticket(&s.Ticket)
	w.starts(&s.Starts)
	w.str(s.Pool)
	w.buf = putUint(w.buf, uint64(s.Slots))
	for _, n := range []int64{s.Count, s.Usage.Input, s.Usage.Output, s.Usage.Cached} {
		w.buf = putUint(w.buf, amount(n))
	}
}

// amount cuts n to what is encoded.
func amount(n int64) uint64 { return uint64(min(max(n, 0), maxAmount)) }

func (w *batchWriter) starts(starts *[limiter.NumScopes]limiter.Time) {
	var mask uint64
	for i, start := range starts {
		if start != limiter.NoWindow {
			mask |= 1 << i
		}
	}
	w.buf = putUint(w.buf, mask)
	for _, start := range starts {
		if start != limiter.NoWindow {
			w.buf = putInt(w.buf, int64(start))
		}
	}
}

func (w *batchWriter) ref(r *limiter.ScopeRef) {
	w.buf = append(w.buf, byte(r.Scope))
	w.str(r.ID)
	w.str(r.Model)
}

// The parts of a batch that most do not have.
const (
	extraHeld     = 1 << 0
	extraReserved = 1 << 1
	extraReports  = 1 << 2
)

// reserves reports whether tokens are reserved in the batch or were in what it settles.
func reserves(b *limiter.Batch) bool {
	return slices.ContainsFunc(b.Reserves, func(t limiter.Ticket) bool { return t.Estimate != limiter.Usage{} }) ||
		slices.ContainsFunc(b.Settles, func(s limiter.Settle) bool { return s.Reserved != 0 })
}

func (w *batchWriter) reserved(b *limiter.Batch) {
	for i := range b.Reserves {
		e := &b.Reserves[i].Estimate
		w.buf = putUint(putUint(w.buf, amount(e.Input)), amount(e.Output))
	}
	for i := range b.Settles {
		w.buf = putUint(w.buf, amount(b.Settles[i].Reserved))
	}
}

func (w *batchWriter) held(held []limiter.Held) {
	for i := range held {
		w.starts((*[limiter.NumScopes]limiter.Time)(&held[i]))
	}
}

func (w *batchWriter) reports(reports []limiter.Report) {
	w.buf = putUint(w.buf, uint64(len(reports)))
	for i := range reports {
		p := &reports[i]
		w.ref(&p.Ref)
		for _, n := range []int64{p.Requests, p.Tokens, p.Slots, int64(p.Age)} {
			w.buf = putUint(w.buf, amount(n))
		}
	}
}

// Smallest encodings, which bound the counts a hostile length can claim.
const (
	minTicket = 4
	minSettle = minTicket + 1 + 1 + 1 + 4
	minReturn = 3 + 1 + 1
	minAsk    = 3 + 1 + 1 + 1
	minReport = 3 + 1 + 1 + 1 + 1
)

// readBatch decodes a batch. It shares no memory with b.
func readBatch(b []byte) (*limiter.Batch, error) {
	r := &batchReader{reader: reader{b: b}}
	r.strings = readList(&r.reader, 1, func(s *string) { *s = r.string() })
	out := &limiter.Batch{Node: r.str(), Epoch: r.uint(), Seq: r.uint()}
	out.Settles = readList(&r.reader, minSettle, r.settle)
	out.Returns = readList(&r.reader, minReturn, r.giveBack)
	out.Reserves = readList(&r.reader, minTicket, r.ticket)
	extras := r.byte()
	if extras&^(extraHeld|extraReserved|extraReports) != 0 {
		r.fail("unknown parts")
	}
	if extras&extraHeld != 0 {
		out.Held = r.held(len(out.Reserves))
	}
	out.Grants = readList(&r.reader, minAsk, r.ask)
	if extras&extraReserved != 0 {
		r.reserved(out)
	}
	if extras&extraReports != 0 {
		out.Reports = readList(&r.reader, minReport, r.report)
	}
	if err := r.finish(); err != nil {
		return nil, fmt.Errorf("%w: batch: %w", errUndecodable, err)
	}
	return out, nil
}

type batchReader struct {
	reader
	strings []string
}

func (r *batchReader) str() string {
	ref := r.uint()
	if ref >= uint64(len(r.strings)) {
		r.fail("a string reference is out of range")
		return ""
	}
	return r.strings[ref]
}

func (r *batchReader) ticket(t *limiter.Ticket) {
	t.Model, t.Key, t.Team, t.Priority = r.str(), r.str(), r.str(), r.str()
}

func (r *batchReader) settle(s *limiter.Settle) {
	r.ticket(&s.Ticket)
	r.starts(&s.Starts)
	s.Pool = r.str()
	s.Slots = limiter.SlotSet(r.below(1<<limiter.NumScopes, "slots"))
	for _, n := range []*int64{&s.Count, &s.Usage.Input, &s.Usage.Output, &s.Usage.Cached} {
		*n = r.amount()
	}
}

func (r *batchReader) amount() int64 { return int64(r.below(maxAmount+1, "amount")) }

func (r *batchReader) starts(starts *[limiter.NumScopes]limiter.Time) {
	mask := r.below(1<<limiter.NumScopes, "scope mask")
	for i := range starts {
		starts[i] = limiter.NoWindow
		if mask&(1<<i) != 0 {
			starts[i] = limiter.Time(r.int())
		}
	}
}

func (r *batchReader) ref(ref *limiter.ScopeRef) {
	ref.Scope = limiter.Scope(r.byte())
	if int(ref.Scope) >= limiter.NumScopes {
		r.fail("unknown scope")
	}
	ref.ID, ref.Model = r.str(), r.str()
}

func (r *batchReader) giveBack(g *limiter.Return) {
	r.ref(&g.Ref)
	g.Start, g.N = limiter.Time(r.int()), r.amount()
}

func (r *batchReader) ask(a *limiter.Ask) {
	r.ref(&a.Ref)
	a.Want, a.Parts, a.For = r.amount(), r.amount(), time.Duration(r.amount())
}

func (r *batchReader) reserved(b *limiter.Batch) {
	for i := range b.Reserves {
		b.Reserves[i].Estimate = limiter.Usage{Input: r.amount(), Output: r.amount()}
	}
	for i := range b.Settles {
		b.Settles[i].Reserved = r.amount()
	}
}

func (r *batchReader) held(n int) []limiter.Held {
	out := make([]limiter.Held, n) // bounded: that many tickets were read
	for i := range out {
		r.starts((*[limiter.NumScopes]limiter.Time)(&out[i]))
	}
	return out
}

func (r *batchReader) report(p *limiter.Report) {
	r.ref(&p.Ref)
	p.Requests, p.Tokens, p.Slots, p.Age = r.amount(), r.amount(), r.amount(), time.Duration(r.amount())
}
