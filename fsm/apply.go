package fsm

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"sluice/limiter"
)

// Apply applies one log entry and returns its encoded answer ([]byte). It is a
// function of the state and the entry: no clock, randomness, map order or I/O.
// Raft calls it, on one goroutine. An entry that cannot be decoded, or a type
// that is unknown and not ignorable, stops the state machine for good: that
// entry and all later ones are answered with ErrStopped and change nothing.
func (s *State) Apply(l *raft.Log) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		return failedAnswer(s.stopped)
	}
	if l.Index <= s.position.Index {
		return failedAnswer(errReplayed) // the state file was ahead of raft
	}
	e, err := decodeEntry(l.Data)
	if err != nil {
		return s.fail(l.Index, err)
	}
	answer, err := s.applyEntry(l.Index, &e)
	if err != nil {
		return s.fail(l.Index, err)
	}
	s.clock.applied(s.position.Now, e.wall, s.view.Load().config.Window, l.Index <= s.o.ReplayEnd())
	s.applied.Store(l.Index)
	s.wake()
	return answer
}

// fail stops the state machine before the entry.
func (s *State) fail(index uint64, err error) []byte {
	s.stop(fmt.Errorf("%w: index %d: %w; run the version of sluice that the other nodes run", ErrStopped, index, err))
	go s.o.OnFatal(s.stopped)
	return failedAnswer(s.stopped)
}

// applyEntry changes the state and returns the answer. With an error nothing
// has been changed.
func (s *State) applyEntry(index uint64, e *entry) ([]byte, error) {
	now := max(s.position.Now, e.stamp)
	next := position{Index: index, Now: now, Wall: e.wall}
	switch {
	case e.cmd.kind == cmdBatch:
		batch, err := readBatch(e.cmd.payload)
		if err != nil {
			return nil, err
		}
		s.advance(next)
		return s.applyBatch(batch), nil
	case newBody(e.cmd.kind) == nil && e.cmd.ignorable:
		s.advance(next)
		return failedAnswer(errSkipped), nil
	}
	body, err := e.cmd.body()
	if err != nil {
		return nil, err
	}
	s.advance(next)
	return s.applyOnce(e, body), nil
}

// advance moves the position, and with it all that time alone changes.
func (s *State) advance(next position) {
	s.position = next
	s.answers.prune(next.Now)
	s.expireStage(next.Now)
}

func (s *State) applyBatch(b *limiter.Batch) []byte {
	again, policy := s.ledger.Applied(b), s.view.Load().Policy()
	answer, err := s.ledger.Apply(s.position.Now, b, policy)
	if err != nil {
		return failedAnswer(err)
	}
	if o := s.o.Observer(); o != nil && !again {
		o.Observe(s.position.Now, b, answer, s.ledger, policy)
	}
	return appendAnswer([]byte{answerResult}, answer)
}

// applyOnce applies a management command unless its idempotency key was used.
func (s *State) applyOnce(e *entry, body any) []byte {
	if e.cmd.key == "" {
		return s.applyBody(e, body)
	}
	if first, ok := s.answers.get(e.cmd.key); ok {
		if first.Kind != e.cmd.kind {
			return failedAnswer(invalid("Idempotency-Key", "was used for another kind of write"))
		}
		return first.pack()
	}
	answer := s.applyBody(e, body)
	s.answers.put(&savedAnswer{
		Key: e.cmd.key, Seq: int64(s.position.Index), Kind: e.cmd.kind, At: s.position.Now,
		Answer: answer[1:], Failed: answer[0] == answerFailed,
	})
	return answer
}

// applyBody runs the command on a working copy of the view, which replaces the
// view only if the command succeeds.
func (s *State) applyBody(e *entry, body any) []byte {
	t := &txn{state: s, view: *s.view.Load(), at: at(e.wall)}
	result, err := t.run(e.cmd.kind, body)
	if err != nil {
		return failedAnswer(err)
	}
	if t.changed {
		t.view.index = s.position.Index
		s.view.Store(&t.view)
		s.dirty.merge(t.dirty)
	}
	return resultAnswer(result)
}

// txn is one management command in the making.
type txn struct {
	state   *State
	view    View // working copy
	at      time.Time
	changed bool
	dirty   dirtySet
}

func (t *txn) run(kind commandType, body any) (result any, err error) {
	switch c := body.(type) {
	case *registerCommand:
		return t.state.ledger.Register(t.state.position.Now, c.Node, c.Nonce), nil
	case *createKeyCommand:
		return t.createKey(&c.Key)
	case *createTeamCommand:
		return t.createTeam(&c.Team)
	case *updateCommand:
		if kind == cmdUpdateTeam {
			return t.updateTeam(c)
		}
		return t.updateKey(c)
	case *deleteCommand:
		if kind == cmdDeleteTeams {
			return t.deleteTeams(c)
		}
		return t.deleteKeys(c)
	case *regenerateCommand:
		return t.regenerateKey(c)
	case *configCommand:
		if kind == cmdProposeConfig {
			return t.proposeConfig(c)
		}
		return t.installConfig(c.Config, c.Source)
	case *rollbackCommand:
		return t.rollbackConfig(c)
	case *shareCommand:
		return t.setShare(c)
	case *silentCommand:
		return nil, t.state.ledger.SetSilent(c.Node, c.Epoch, c.Silent)
	case *beginCommand:
		return t.beginRestore(c)
	case *partCommand:
		return t.addPart(c)
	case *commitCommand:
		return t.commitRestore(c)
	}
	return nil, fmt.Errorf("command type %d has no meaning", kind)
}
