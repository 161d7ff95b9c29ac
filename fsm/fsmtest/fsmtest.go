// Package fsmtest gives tests a state machine without a cluster: commands are
// applied at once, to as many replicas as the test wants.
package fsmtest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"sluice/fsm"
)

// Log is a log without a disk and without elections. It applies every command
// to all of its states, in one order, and keeps the entries.
type Log struct {
	mu      sync.Mutex
	states  []*fsm.State
	entries []*raft.Log
	fail    error
}

var _ fsm.Replicator = (*Log)(nil)

// NewLog returns a log that feeds these states. The first one is the leader: it
// stamps the entries, and its answers are returned.
func NewLog(states ...*fsm.State) *Log { return &Log{states: states} }

// Apply appends the command and applies it everywhere.
func (l *Log) Apply(ctx context.Context, cmd []byte) ([]byte, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(ctx.Err(), l.fail); err != nil {
		return nil, 0, err
	}
	e := &raft.Log{
		Index: l.states[0].AppliedIndex() + 1,
		Term:  1,
		Type:  raft.LogCommand,
		Data:  l.states[0].Prepare(cmd),
	}
	l.entries = append(l.entries, e)
	var answer []byte
	for i, s := range l.states {
		a, ok := s.Apply(e).([]byte)
		if !ok {
			return nil, 0, errors.New("state machine answered something other than bytes")
		}
		if i == 0 {
			answer = a
		}
	}
	return answer, e.Index, nil
}

// Fail makes later Applies return err, as a log without a leader would; nil
// ends that.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// Entries returns what was applied so far.
func (l *Log) Entries() []*raft.Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*raft.Log(nil), l.entries...)
}

// Open returns a state machine in memory that holds the configuration as
// version 1, a client for it, and its log. The test closes it.
func Open(t testing.TB, cfg fsm.Config) (*fsm.State, *fsm.Client, *Log) {
	t.Helper()
	s, err := fsm.Open(fsm.Options{})
	if err != nil {
		t.Fatalf("open state machine: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close state machine: %v", err)
		}
	})
	log := NewLog(s)
	client := fsm.NewClient(log, s)
	if _, err := client.ApplyConfig(context.Background(), cfg, "test", fsm.WriteOptions{}); err != nil {
		t.Fatalf("apply configuration: %v", err)
	}
	return s, client, log
}
