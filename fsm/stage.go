package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"sluice/limiter"
)

// A restore goes through the log like everything else: begin, the snapshot in
// parts, commit. The parts wait in the state, outside of what anybody reads;
// the commit replaces the state in one entry, on every replica or on none. Raft
// could install a snapshot from outside, but only its leader would have it at
// first: a leader lost at that moment leaves replicas that differ.
const (
	// partSize is the snapshot's bytes in one entry, which is to stay below
	// what the log takes with room for what goes around it.
	partSize = 192 << 10
	// stageAge is how long a restore may stand still before it is forgotten:
	// the node that carried it has died.
	stageAge    = limiter.Time(30e9)
	stageIDSize = 32
	maxParts    = (MaxBackup + partSize - 1) / partSize
)

// Answers of a restore. Nothing was changed.
var (
	// ErrNotFresh is returned when the cluster has keys, teams, or a
	// configuration that is not the first.
	ErrNotFresh = errors.New("the cluster is not fresh")
	// ErrRestoring is returned while another restore is under way.
	ErrRestoring = errors.New("another restore is under way")
	// ErrRestoreLost is returned when a restore stood still for too long, or
	// another one took its place.
	ErrRestoreLost = errors.New("the restore was given up")
)

// beginCommand announces a snapshot.
type beginCommand struct {
	ID     string `json:"id"` // 32 characters
	Length int64  `json:"length"`
	SHA256 string `json:"sha256"`
}

// partCommand is binary: id, number (4 bytes, big-endian), bytes.
type partCommand struct {
	id     string
	number int
	data   []byte
}

type commitCommand struct {
	ID string `json:"id"`
}

// staged is a restore under way.
type staged struct {
	ID     string       `json:"id"`
	Length int64        `json:"length"`
	SHA256 string       `json:"sha256"`
	At     limiter.Time `json:"at"` // ledger time of the last step
	parts  [][]byte     // never changed in place
}

func encodePart(id string, number int, data []byte) []byte {
	b := make([]byte, 0, stageIDSize+4+len(data))
	b = append(b, id...)
	b = binary.BigEndian.AppendUint32(b, uint32(number))
	return append(b, data...)
}

func decodePart(b []byte) (*partCommand, error) {
	if len(b) <= stageIDSize+4 || len(b) > stageIDSize+4+partSize {
		return nil, fmt.Errorf("%w: part of a restore with %d bytes", errUndecodable, len(b))
	}
	number := binary.BigEndian.Uint32(b[stageIDSize:])
	if number >= maxParts {
		return nil, fmt.Errorf("%w: part %d of a restore", errUndecodable, number)
	}
	return &partCommand{id: string(b[:stageIDSize]), number: int(number), data: b[stageIDSize+4:]}, nil
}

// clone returns a copy that later steps do not change.
func (s *staged) clone() *staged {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}

// partsOf returns how many parts a snapshot of that length has.
func partsOf(length int64) int { return int((length + partSize - 1) / partSize) }

// expireStage forgets a restore that stands still. It runs with every entry.
func (s *State) expireStage(now limiter.Time) {
	if s.staged != nil && s.staged.At+stageAge < now {
		s.staged = nil
	}
}

// beginRestore answers with the number of parts that are there already: a
// begin is repeated when its answer was lost.
func (t *txn) beginRestore(c *beginCommand) (any, error) {
	switch st := t.state.staged; {
	case !t.view.fresh():
		return nil, ErrNotFresh
	case len(c.ID) != stageIDSize || c.Length <= 0 || c.Length > MaxBackup:
		return nil, invalid("backup", "has an impossible length")
	case st != nil && st.ID != c.ID:
		return nil, ErrRestoring
	case st == nil || st.Length != c.Length || st.SHA256 != c.SHA256:
		t.state.staged = &staged{ID: c.ID, Length: c.Length, SHA256: c.SHA256}
	}
	t.state.staged.At = t.state.position.Now
	return len(t.state.staged.parts), nil
}

// addPart takes the parts in their order; one that is there already is not
// taken again.
func (t *txn) addPart(c *partCommand) (any, error) {
	st := t.state.staged
	if st == nil || st.ID != c.id || c.number > len(st.parts) || c.number >= partsOf(st.Length) {
		return nil, ErrRestoreLost
	}
	if c.number == len(st.parts) {
		next := *st
		next.parts = append(slices.Clip(st.parts), bytes.Clone(c.data))
		t.state.staged = &next
	}
	t.state.staged.At = t.state.position.Now
	return len(t.state.staged.parts), nil
}

// reader returns the parts as one snapshot.
func (s *staged) reader() io.Reader {
	readers := make([]io.Reader, len(s.parts))
	for i, p := range s.parts {
		readers[i] = bytes.NewReader(p)
	}
	return io.MultiReader(readers...)
}

// check compares the parts with what was announced.
func (s *staged) check() error {
	h := sha256.New()
	n, err := io.Copy(h, s.reader())
	if err != nil {
		return err
	}
	if n != s.Length || hex.EncodeToString(h.Sum(nil)) != s.SHA256 {
		return invalid("backup", "did not arrive whole: %d of %d bytes", n, s.Length)
	}
	return nil
}

// stageOf puts a restore together from its records.
func stageOf(s *staged, parts [][]byte) (*staged, error) {
	if s == nil {
		if len(parts) > 0 {
			return nil, errors.New("parts of a restore that was not begun")
		}
		return nil, nil
	}
	if len(s.ID) != stageIDSize || s.Length <= 0 || s.Length > MaxBackup || len(parts) > partsOf(s.Length) || s.At < 0 || s.At > maxStamp {
		return nil, errors.New("an impossible restore")
	}
	s.parts = parts
	return s, nil
}
