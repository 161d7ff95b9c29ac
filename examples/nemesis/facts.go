package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Facts are what a run has left behind; check judges nothing else. Times are
// since the start of the run, on one monotonic clock.
type Facts struct {
	Plan     Plan
	Keys     map[string]KeyPlan // the plan's, and those that were made on the way
	Sent     map[string]Sent    // by id
	Executed []Executed         // the provider's own record
	Windows  []WindowSeen       // of the models
	History  []Op               // of the registers
	// Present says, for each node and acknowledged key, what /key/info said at
	// the end: "" for what was acknowledged.
	Present   map[string]map[string]string
	Registers map[string]map[string]string // what each node shows at the end
	Digests   []Digest
	Slots     SlotFacts
	Troubles  []string // the cluster did not come back, a node ended by itself, …
}

// Sent is one data-plane request as its client saw it.
type Sent struct {
	ID, Key, Model, Node string
	At, Done             time.Duration
	Status               int // 0: no answer
	LimitedBy            string
	Mode                 string // x-sluice-limits of the answer; "" if there was none
	Err                  string
}

// Executed is one request as it arrived at the provider.
type Executed struct {
	ID       string
	At, Done time.Duration
}

// Digest is a node's state at the end.
type Digest struct {
	Node   string
	Index  uint64
	SHA256 string
}

// SlotFacts say how a key of Limit parallel requests was served when all was quiet.
type SlotFacts struct {
	Limit    int64
	Statuses []int // of Limit requests at once, over all nodes
	Extra    int   // of one more meanwhile
	Inflight map[string]float64
}

// Violation is a broken promise, with what shows it.
type Violation struct {
	Invariant string
	Detail    string
}

func (v Violation) String() string { return v.Invariant + ": " + v.Detail }

func violated(invariant, format string, args ...any) Violation {
	return Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...)}
}

// save keeps the facts for whoever wants to know more.
func save(path string, f *Facts) error {
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("encode the facts: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("keep the facts: %w", err)
	}
	return nil
}

// judgeAgain judges what save has kept.
func judgeAgain(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the facts: %w", err)
	}
	var f Facts
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("decode the facts: %w", err)
	}
	found := check(&f)
	for _, v := range found {
		fmt.Println(v)
	}
	if len(found) > 0 {
		return fmt.Errorf("seed %d breaks %d promises", f.Plan.Seed, len(found))
	}
	fmt.Printf("seed %d: ok\n", f.Plan.Seed)
	return nil
}

// check judges a run by every invariant.
func check(f *Facts) []Violation {
	var all []Violation
	for _, t := range f.Troubles {
		all = append(all, violated("the cluster comes back", "%s", t))
	}
	for _, judge := range []func(*Facts) []Violation{
		checkOnce, checkScopes, checkExact, checkShares, checkWindowsSeen, checkEdges, checkFill, checkSlots, checkPresent, checkRegisters, checkDigests,
	} {
		all = append(all, judge(f)...)
	}
	return all
}
