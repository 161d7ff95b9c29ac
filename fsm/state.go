package fsm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"sluice/limiter"
)

// State is the replicated state machine of one node.
//
// Raft calls Apply, Snapshot and Restore from one goroutine; everything else
// may be called from any. Readers of keys, teams and configuration use View and
// wait for nobody; what reads the Ledger takes the lock that Apply takes.
type State struct {
	o       Options
	clock   clock
	view    atomic.Pointer[View]
	applied atomic.Uint64
	loaded  uint64     // index of the clean state file, 0 for none
	file    *stateFile // nil: in memory only
	flusher flusher
	closing sync.Once

	mu       sync.Mutex
	ledger   *limiter.Ledger
	position position
	answers  *answerTable
	hashes   []string // of configurations that held, oldest first; never changed in place
	staged   *staged  // a restore that is under way, else nil
	dirty    dirtySet
	stopped  error         // why no further entry is applied
	changed  chan struct{} // closed at the next applied entry; nil while nobody waits
}

var _ raft.FSM = (*State)(nil)

// position is where in the log a state stands.
type position struct {
	Index uint64       `json:"index"` // last applied entry
	Now   limiter.Time `json:"now"`   // ledger time of it
	Wall  int64        `json:"wall"`  // leader's wall time of it, nanoseconds since 1970
}

// Open returns a state machine that holds what a clean state file in Dir says,
// or nothing. Errors: ErrLocked, ErrDamaged, and those of the file system.
func Open(o Options) (*State, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &State{o: o}
	s.clock = clock{mono: o.Mono, now: o.Now, offset: -limiter.Time(o.Mono())}
	empty, err := newContent()
	if err != nil {
		return nil, err
	}
	if err := s.install(empty); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return s, nil
	}
	file, content, err := openStateFile(o.Dir, o.Logger)
	if err != nil {
		return nil, err
	}
	s.file = file
	if content != nil {
		if err := s.install(content); err != nil {
			o.Logger.Warn("state file holds a state that cannot be; rebuilding it from the log", "path", file.path, "error", err)
			if err := s.install(empty); err != nil {
				return nil, err
			}
		}
		s.loaded = s.applied.Load()
	}
	s.dirty = newDirtySet(s.loaded == 0)
	s.flusher.start(o.FlushInterval, s.flush)
	return s, nil
}

// install replaces the whole state. The caller holds mu or is Open.
func (s *State) install(c *content) error {
	ledger, err := limiter.LoadLedger(c.ledger)
	if err != nil {
		return fmt.Errorf("load ledger: %w", err)
	}
	s.ledger, s.position, s.hashes = ledger, c.position, c.hashes
	s.answers, s.staged = newAnswerTable(c.answers), c.staged
	s.clock.restored(c.position.Now, c.position.Wall, c.view.config.Window)
	s.view.Store(c.view)
	s.applied.Store(c.position.Index)
	if o := s.o.Observer(); o != nil {
		o.Forget()
	}
	s.wake()
	return nil
}

// capture returns the state as it is, without anything that Apply will change.
// The caller holds mu.
func (s *State) capture() *content {
	v := s.view.Load()
	return &content{
		position: s.position,
		view:     v,
		hashes:   s.hashes,
		answers:  s.answers.list(),
		staged:   s.staged.clone(),
		ledger:   s.ledger.Save(s.position.Now, v.config.Window),
	}
}

// View returns the newest view.
func (s *State) View() *View { return s.view.Load() }

// AppliedIndex returns the index of the last entry that this replica applied.
// Raft shows it only commands, so no-ops and configuration entries of the log
// never count here.
func (s *State) AppliedIndex() uint64 { return s.applied.Load() }

// LoadedIndex returns the index that a clean state file held at Open, 0 if
// there was none.
func (s *State) LoadedIndex() uint64 { return s.loaded }

// WaitApplied returns once this replica has applied the command at index.
// Errors: ctx's, ErrStopped, ErrClosed.
func (s *State) WaitApplied(ctx context.Context, index uint64) error {
	for s.applied.Load() < index {
		ch, err := s.nextChange(index)
		if err != nil {
			return err
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *State) nextChange(index uint64) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil && s.applied.Load() < index {
		return nil, s.stopped
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	ch := s.changed
	if s.applied.Load() >= index {
		s.wake()
	}
	return ch, nil
}

// wake lets everybody look again. The caller holds mu or is Open.
func (s *State) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// stop refuses everything from now on. The caller holds mu.
func (s *State) stop(err error) {
	s.stopped = err
	s.wake()
}

// Limits returns the running window of one model group, or of all configured
// models for "".
func (s *State) Limits(model string) []limiter.ModelState {
	now := s.clock.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	names := []string{model}
	if model == "" {
		names = v.config.ModelNames()
	}
	states := make([]limiter.ModelState, len(names))
	for i, name := range names {
		states[i] = s.ledger.Inspect(now, v.Policy(), name)
	}
	return states
}

// Look reports what this replica knows of a ticket. Any goroutine calls.
func (s *State) Look(t *limiter.Ticket) limiter.Outlook {
	now := s.clock.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Look(now, t, s.view.Load().Policy())
}

// Explain says what one more request would meet now, as this replica has it.
func (s *State) Explain(t limiter.Ticket) limiter.Explanation {
	now := s.clock.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Explain(now, s.view.Load().Policy(), t)
}

// Sessions lists the nodes' process runs that the ledger knows.
func (s *State) Sessions() []limiter.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Sessions()
}

// Close writes what is not in the state file yet, marks it clean and gives the
// directory free. If that fails the error says so; the next start then rebuilds
// the file from snapshot and log. Later calls do nothing. Stop Raft first.
func (s *State) Close() error {
	var err error
	s.closing.Do(func() {
		s.flusher.stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopped == nil {
			s.stop(ErrClosed)
		}
		if s.file != nil {
			err = s.file.close(s.capture(), s.dirty)
		}
	})
	return err
}

// at returns the leader's wall time of an entry.
func at(wall int64) time.Time { return time.Unix(0, wall).UTC() }
