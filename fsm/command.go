package fsm

import (
	"encoding/json"
	"fmt"
	"time"

	"sluice/limiter"
)

// The payloads of management commands, as JSON. A field may be added only
// together with a new command type: a version that does not know a field stops.

type registerCommand struct {
	Node  string `json:"node"`
	Nonce string `json:"nonce"`
}

type createKeyCommand struct {
	Key Key `json:"key"`
}

type createTeamCommand struct {
	Team Team `json:"team"`
}

type updateCommand struct {
	ID    string `json:"id"`
	Patch Patch  `json:"patch"`
}

type deleteCommand struct {
	IDs []string `json:"ids"`
}

type regenerateCommand struct {
	ID      string `json:"id"`
	NewID   string `json:"new_id"`
	NewName string `json:"new_name"`
	Patch   Patch  `json:"patch,omitempty"`
}

type configCommand struct {
	Config Config `json:"config"`
	Source string `json:"source,omitempty"`
	// Initial: of a proposal, only where there is no configuration yet.
	Initial bool `json:"initial,omitempty"`
}

type rollbackCommand struct {
	Version uint64 `json:"version"`
}

type shareCommand struct {
	Name  string         `json:"name"`
	Share *limiter.Share `json:"share"` // nil: take it out
}

// silentCommand says that a node's process run does not answer, or does again.
type silentCommand struct {
	Node   string `json:"node"`
	Epoch  uint64 `json:"epoch"`
	Silent bool   `json:"silent"`
}

// ConfigVersion is one entry of the configuration's history.
type ConfigVersion struct {
	Version   uint64    `json:"version"`
	Hash      string    `json:"hash"` // SHA-256 of the content's canonical JSON
	Source    string    `json:"source,omitempty"`
	AppliedAt time.Time `json:"applied_at"` // the leader's wall clock
	Config    Config    `json:"config"`
}

// newBody returns what a command's payload decodes into, nil for a type that
// is not known or not JSON.
func newBody(kind commandType) any {
	switch kind {
	case cmdRegister:
		return &registerCommand{}
	case cmdCreateKey:
		return &createKeyCommand{}
	case cmdUpdateKey, cmdUpdateTeam:
		return &updateCommand{}
	case cmdDeleteKeys, cmdDeleteTeams:
		return &deleteCommand{}
	case cmdRegenerateKey:
		return &regenerateCommand{}
	case cmdCreateTeam:
		return &createTeamCommand{}
	case cmdProposeConfig, cmdApplyConfig:
		return &configCommand{}
	case cmdRollbackConfig:
		return &rollbackCommand{}
	case cmdSetShare:
		return &shareCommand{}
	case cmdSetSilent:
		return &silentCommand{}
	case cmdBeginRestore:
		return &beginCommand{}
	case cmdCommitRestore:
		return &commitCommand{}
	default:
		return nil
	}
}

// body decodes the payload of a management command.
func (c command) body() (any, error) {
	if c.kind == cmdRestorePart {
		return decodePart(c.payload)
	}
	body := newBody(c.kind)
	if body == nil {
		return nil, fmt.Errorf("%w: command type %d is not known", errUndecodable, c.kind)
	}
	if err := decodeJSON(c.payload, body); err != nil {
		return nil, fmt.Errorf("%w: command type %d: %w", errUndecodable, c.kind, err)
	}
	return body, nil
}

// check makes sure before it is proposed that every replica can decode it: what
// cannot be decoded would stop them all.
func (c command) check() error {
	_, err := c.body()
	return err
}

// encodeRecord writes what only holds plain fields; it cannot fail for records
// that came out of decodeJSON.
func encodeRecord(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}
