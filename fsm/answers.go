package fsm

import (
	"encoding/json"
	"slices"

	"sluice/limiter"
)

// answerTable remembers the answers of writes that carried an idempotency key.
// It is part of the state: all replicas hold the same.
type answerTable struct {
	byKey map[string]*savedAnswer
	order []*savedAnswer // oldest first
	bytes int
}

// savedAnswer is one remembered answer. It never changes.
type savedAnswer struct {
	Key    string          `json:"key"`
	Seq    int64           `json:"seq"` // log index of the write
	Kind   commandType     `json:"kind"`
	At     limiter.Time    `json:"at"` // ledger time
	Answer json.RawMessage `json:"answer"`
	Failed bool            `json:"failed,omitempty"`
}

// Bounds of the table. An hour is the contract; the rest keeps a client that
// sends a new key with every write from filling the memory.
const (
	answerAge      = limiter.Time(3600e9)
	maxAnswers     = 20_000
	maxAnswerBytes = 16 << 20
)

func newAnswerTable(list []*savedAnswer) *answerTable {
	t := &answerTable{byKey: make(map[string]*savedAnswer, len(list))}
	for _, a := range list {
		t.put(a)
	}
	return t
}

func (t *answerTable) list() []*savedAnswer { return slices.Clone(t.order) }

func (t *answerTable) get(key string) (*savedAnswer, bool) {
	a, ok := t.byKey[key]
	return a, ok
}

func (t *answerTable) put(a *savedAnswer) {
	t.byKey[a.Key] = a
	t.order = append(t.order, a)
	t.bytes += a.size()
}

// prune forgets what is too old or too much at now. It runs with every entry,
// so that the table depends on nothing but the log.
func (t *answerTable) prune(now limiter.Time) {
	for len(t.order) > 0 {
		a := t.order[0]
		if a.At+answerAge > now && len(t.order) <= maxAnswers && t.bytes <= maxAnswerBytes {
			return
		}
		t.order[0] = nil
		t.order = t.order[1:]
		delete(t.byKey, a.Key)
		t.bytes -= a.size()
	}
}

func (a *savedAnswer) size() int { return len(a.Key) + len(a.Answer) + 64 }

// pack returns the answer as Apply returned it.
func (a *savedAnswer) pack() []byte {
	kind := byte(answerResult)
	if a.Failed {
		kind = answerFailed
	}
	return append([]byte{kind}, a.Answer...)
}
