package limiter

import (
	"errors"
	"testing"
	"time"
)

// slotDriver drives a ledger with one key that may have two requests in flight,
// from two nodes.
func slotDriver(t *testing.T) (n1, n2 *driver, tk Ticket) {
	t.Helper()
	p := newTable().model("m", Limits{}, Reservation{})
	p.keys["k"] = &SubjectPolicy{Limits: Limits{Parallel: Of(2)}}
	n1 = newDriver(t, p)
	other := *n1
	other.node = "n2"
	other.epoch, other.seq = n1.ledger.Register(0, "n2", "run-1"), 0
	return n1, &other, Ticket{Model: "m", Key: "k"}
}

func silence(t *testing.T, d *driver, silent bool) {
	t.Helper()
	if err := d.ledger.SetSilent(d.node, d.epoch, silent); err != nil {
		t.Fatal(err)
	}
}

func TestSlotsOfASilentNodeDoNotCountUntilItSpeaks(t *testing.T) {
	for name, speak := range map[string]func(t *testing.T, d *driver){
		"its peers hear it": func(t *testing.T, d *driver) { silence(t, d, false) },
		"it sends a batch":  func(_ *testing.T, d *driver) { d.batch(nil) },
	} {
		for _, restored := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				n1, n2, tk := slotDriver(t)
				held := []Decision{n1.ask(tk), n1.ask(tk)}
				if n2.ask(tk).Admitted {
					t.Fatal("a third request was admitted")
				}
				silence(t, n1, true)
				silence(t, n1, true)
				if restored {
					n1.ledger = reload(t, n1.ledger, n1.now, time.Minute)
					n2.ledger = n1.ledger
				}
				first, second := n2.ask(tk), n2.ask(tk)
				if !first.Admitted || !second.Admitted {
					t.Fatal("the slots of a silent node are still counted")
				}
				speak(t, n1)
				n2.settle(tk, first, Usage{})
				n2.settle(tk, second, Usage{})
				if n2.ask(tk).Admitted {
					t.Error("the node came back with two requests in flight, and a third was admitted")
				}
				n1.settle(tk, held[0], Usage{})
				if !n2.ask(tk).Admitted {
					t.Error("a slot that was settled after the return is not free")
				}
			})
		}
	}
}

func TestSilenceIsOfOneProcessRun(t *testing.T) {
	n1, n2, tk := slotDriver(t)
	n1.ask(tk)
	n1.ask(tk)
	silence(t, n1, true)
	old := n1.epoch
	n1.epoch, n1.seq = n1.ledger.Register(n1.now, "n1", "run-2"), 0
	if err := n1.ledger.SetSilent("n1", old, true); !errors.Is(err, ErrOldEpoch) {
		t.Errorf("silencing the run before: %v, want ErrOldEpoch", err)
	}
	if err := n1.ledger.SetSilent("n9", 1, true); !errors.Is(err, ErrOldEpoch) {
		t.Errorf("silencing a stranger: %v, want ErrOldEpoch", err)
	}
	first, second, third := n1.ask(tk), n1.ask(tk), n2.ask(tk)
	if !first.Admitted || !second.Admitted || third.Admitted {
		t.Error("the new run does not hold exactly its own slots")
	}
}

func TestSubjectOfASilentNodeIsNotForgotten(t *testing.T) {
	n1, n2, tk := slotDriver(t)
	n1.ask(tk)
	n1.ask(tk)
	silence(t, n1, true)
	n2.settle(tk, n2.ask(tk), Usage{})
	n2.now = n2.now.Add(time.Hour)
	n2.batch(nil)
	silence(t, n1, false)
	if n2.ask(tk).Admitted {
		t.Error("the slots were lost while the node was silent")
	}
}
