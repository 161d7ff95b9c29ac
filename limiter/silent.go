package limiter

// A node that dies takes its requests along, but nobody is left to settle them:
// until it is started again its concurrency slots would refuse requests that
// nothing stands against. Whether a node still lives is for its peers to say;
// what the Ledger keeps is that their word is the same on every replica, and
// that it can be taken back: a node that was only cut off still runs its
// requests, so its slots count again with its first sign of life.

// SessionInfo is one node's current process run.
type SessionInfo struct {
	Node   string
	Epoch  uint64
	Silent bool
}

// Sessions lists the process runs in the order of their nodes.
func (l *Ledger) Sessions() []SessionInfo {
	out := make([]SessionInfo, 0, len(l.sessions))
	for _, node := range sortedNames(l.sessions) {
		s := l.sessions[node]
		out = append(out, SessionInfo{Node: node, Epoch: s.epoch, Silent: s.silent})
	}
	return out
}

// SetSilent stops counting the concurrency slots of a process run, or counts
// them again. The run's next batch counts them again by itself. ErrOldEpoch if
// the node has another run by now.
func (l *Ledger) SetSilent(node string, epoch uint64, silent bool) error {
	s := l.sessions[node]
	if s == nil || s.epoch != epoch {
		return ErrOldEpoch
	}
	l.setSilent(node, s, silent)
	return nil
}

func (l *Ledger) setSilent(node string, s *session, silent bool) {
	if s.silent == silent {
		return
	}
	s.silent = silent
	l.keys.setSilent(node, silent)
	l.teams.setSilent(node, silent)
}
