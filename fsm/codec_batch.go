package fsm

import (
	"fmt"

	"sluice/limiter"
)

// Batches are most of the log, so they are binary: varints, and every string
// once per batch. A batch is
//
//	strings: count, then length and bytes of each
//	node(ref) epoch seq
//	settles: count, then ticket, mask of starts, starts, pool(ref), slots, count, usage
//	reserves: count, then ticket
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
	w.buf = putUint(w.buf, uint64(len(b.Reserves)))
	for i := range b.Reserves {
		w.ticket(&b.Reserves[i])
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
	var mask uint64
	for i, start := range s.Starts {
		if start != limiter.NoWindow {
			mask |= 1 << i
		}
	}
	w.buf = putUint(w.buf, mask)
	for _, start := range s.Starts {
		if start != limiter.NoWindow {
			w.buf = putInt(w.buf, int64(start))
		}
	}
	w.str(s.Pool)
	w.buf = putUint(w.buf, uint64(s.Slots))
	for _, n := range []int64{s.Count, s.Usage.Input, s.Usage.Output, s.Usage.Cached} {
		w.buf = putUint(w.buf, uint64(min(max(n, 0), maxAmount)))
	}
}

// Smallest encodings, which bound the counts a hostile length can claim.
const (
	minTicket = 4
	minSettle = minTicket + 1 + 1 + 1 + 4
)

// readBatch decodes a batch. It shares no memory with b.
func readBatch(b []byte) (*limiter.Batch, error) {
	r := &batchReader{reader: reader{b: b}}
	r.strings = readList(&r.reader, 1, func(s *string) { *s = r.string() })
	out := &limiter.Batch{Node: r.str(), Epoch: r.uint(), Seq: r.uint()}
	out.Settles = readList(&r.reader, minSettle, r.settle)
	out.Reserves = readList(&r.reader, minTicket, r.ticket)
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
	mask := r.below(1<<limiter.NumScopes, "scope mask")
	for i := range s.Starts {
		s.Starts[i] = limiter.NoWindow
		if mask&(1<<i) != 0 {
			s.Starts[i] = limiter.Time(r.int())
		}
	}
	s.Pool = r.str()
	s.Slots = limiter.SlotSet(r.below(1<<limiter.NumScopes, "slots"))
	for _, n := range []*int64{&s.Count, &s.Usage.Input, &s.Usage.Output, &s.Usage.Cached} {
		*n = int64(r.below(maxAmount+1, "amount"))
	}
}
