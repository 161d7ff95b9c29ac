package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"sluice/limiter"
)

// A log entry is what the leader noted as it proposed the command, and the
// command as its author made it:
//
//	version(1) stamp(8) wall(8) │ version(1) flags(1) type(1) keyLen(1) key payload
//
// Integers are big-endian. The flag bit 0 marks a command that a version which
// does not know its type may skip; everything else unknown stops the node,
// because going on would make its state differ from the others'.
const (
	entryVersion   = 1
	entryHeader    = 1 + 8 + 8
	commandVersion = 1
	commandHeader  = 4
	flagIgnorable  = 1 << 0

	maxIdempotencyKey = 255
	// maxStamp keeps sums of a stamp and a duration from overflowing.
	maxStamp = 1 << 62
)

// commandType says what a command does. Numbers are never given a new meaning.
type commandType uint8

const (
	cmdRegister       commandType = 1
	cmdBatch          commandType = 2
	cmdCreateKey      commandType = 3
	cmdUpdateKey      commandType = 4
	cmdDeleteKeys     commandType = 5
	cmdRegenerateKey  commandType = 6
	cmdCreateTeam     commandType = 7
	cmdUpdateTeam     commandType = 8
	cmdDeleteTeams    commandType = 9
	cmdProposeConfig  commandType = 10
	cmdApplyConfig    commandType = 11
	cmdRollbackConfig commandType = 12
	cmdSetShare       commandType = 13
	cmdSetSilent      commandType = 14
	cmdBeginRestore   commandType = 15
	cmdRestorePart    commandType = 16
	cmdCommitRestore  commandType = 17
)

// errUndecodable is wrapped by every error that must stop the state machine.
var errUndecodable = errors.New("entry cannot be decoded")

// entry is one decoded log entry.
type entry struct {
	stamp limiter.Time
	wall  int64 // the leader's wall clock, nanoseconds since 1970
	cmd   command
}

// command is the part of an entry that does not depend on who proposes it.
type command struct {
	kind      commandType
	ignorable bool
	key       string // idempotency key, "" for none
	payload   []byte
}

func (c command) encode() []byte {
	b := make([]byte, 0, commandHeader+len(c.key)+len(c.payload))
	var flags byte
	if c.ignorable {
		flags |= flagIgnorable
	}
	b = append(b, commandVersion, flags, byte(c.kind), byte(len(c.key)))
	b = append(b, c.key...)
	return append(b, c.payload...)
}

// appendEntry puts the leader's notes in front of an encoded command.
func appendEntry(stamp limiter.Time, wall int64, cmd []byte) []byte {
	b := make([]byte, 0, entryHeader+len(cmd))
	b = append(b, entryVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(stamp))
	b = binary.BigEndian.AppendUint64(b, uint64(wall))
	return append(b, cmd...)
}

// decodeEntry reads an entry. The payload is a part of b, not a copy.
func decodeEntry(b []byte) (entry, error) {
	if len(b) < entryHeader+commandHeader {
		return entry{}, fmt.Errorf("%w: it has only %d bytes", errUndecodable, len(b))
	}
	if b[0] != entryVersion {
		return entry{}, fmt.Errorf("%w: entry version %d is not known", errUndecodable, b[0])
	}
	e := entry{
		stamp: limiter.Time(binary.BigEndian.Uint64(b[1:])),
		wall:  int64(binary.BigEndian.Uint64(b[9:])),
	}
	if e.stamp < 0 || e.stamp > maxStamp {
		return entry{}, fmt.Errorf("%w: its time %d is impossible", errUndecodable, e.stamp)
	}
	cmd, err := decodeCommand(b[entryHeader:])
	e.cmd = cmd
	return e, err
}

func decodeCommand(b []byte) (command, error) {
	if len(b) < commandHeader {
		return command{}, fmt.Errorf("%w: the command has only %d bytes", errUndecodable, len(b))
	}
	version, flags, keyLen := b[0], b[1], int(b[3])
	switch {
	case version != commandVersion:
		return command{}, fmt.Errorf("%w: command version %d is not known", errUndecodable, version)
	case flags&^flagIgnorable != 0:
		return command{}, fmt.Errorf("%w: flags %#x are not known", errUndecodable, flags)
	case len(b) < commandHeader+keyLen:
		return command{}, fmt.Errorf("%w: it ends within its idempotency key", errUndecodable)
	}
	b2 := b[commandHeader:]
	return command{
		kind:      commandType(b[2]),
		ignorable: flags&flagIgnorable != 0,
		key:       string(b2[:keyLen]),
		payload:   b2[keyLen:],
	}, nil
}
