package fsm

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice/limiter"
)

// Replicator puts commands into the log. The node implements it.
type Replicator interface {
	// Apply returns once the command is committed and applied on the leader:
	// the state machine's answer and the entry's index. Any goroutine calls.
	Apply(ctx context.Context, cmd []byte) (answer []byte, index uint64, err error)
}

// Client makes typed writes. Every method returns after the local replica has
// applied the write, so that a read that follows sees it. Errors: ErrNotFound,
// ErrExists, ErrAliasTaken, *InvalidError, *InvalidConfigError (nothing was
// changed), the replicator's own, wrapped, and the context's (the outcome may
// be unknown). Any goroutine may call.
type Client struct {
	log   Replicator
	state *State
}

// NewClient returns a client that writes through r and waits for s.
func NewClient(r Replicator, s *State) *Client { return &Client{log: r, state: s} }

// WriteOptions go with a write.
type WriteOptions struct {
	// IdempotencyKey, if not "", makes the write happen once: a second one of
	// the same kind with the same key within an hour returns the first answer,
	// on any node. At most 255 bytes.
	IdempotencyKey string
}

// CreateKey stores a key. The zero CreatedAt and UpdatedAt become the leader's
// wall time.
func (c *Client) CreateKey(ctx context.Context, k Key, o WriteOptions) (*Key, error) {
	var out Key
	if err := c.write(ctx, cmdCreateKey, createKeyCommand{Key: k}, o, &out); err != nil {
		return nil, err
	}
	return &out, out.finish(c.state.View().config)
}

// UpdateKey changes the fields that the patch names.
func (c *Client) UpdateKey(ctx context.Context, id string, p Patch, o WriteOptions) (*Key, error) {
	var out Key
	if err := c.write(ctx, cmdUpdateKey, updateCommand{ID: id, Patch: p}, o, &out); err != nil {
		return nil, err
	}
	return &out, out.finish(c.state.View().config)
}

// DeleteKeys deletes the keys that exist and returns their IDs. ErrNotFound if
// none does.
func (c *Client) DeleteKeys(ctx context.Context, ids []string, o WriteOptions) (deleted []string, err error) {
	err = c.write(ctx, cmdDeleteKeys, deleteCommand{IDs: ids}, o, &deleted)
	return deleted, err
}

// RegenerateKey gives a key a new secret, and what the patch changes, in one
// step. The old secret is invalid from then on.
func (c *Client) RegenerateKey(ctx context.Context, oldID, newID, newName string, p Patch, o WriteOptions) (*Key, error) {
	var out Key
	cmd := regenerateCommand{ID: oldID, NewID: newID, NewName: newName, Patch: p}
	if err := c.write(ctx, cmdRegenerateKey, cmd, o, &out); err != nil {
		return nil, err
	}
	return &out, out.finish(c.state.View().config)
}

// CreateTeam stores a team.
func (c *Client) CreateTeam(ctx context.Context, t Team, o WriteOptions) (*Team, error) {
	var out Team
	if err := c.write(ctx, cmdCreateTeam, createTeamCommand{Team: t}, o, &out); err != nil {
		return nil, err
	}
	return &out, out.finish(c.state.View().config)
}

// UpdateTeam changes the fields that the patch names.
func (c *Client) UpdateTeam(ctx context.Context, id string, p Patch, o WriteOptions) (*Team, error) {
	var out Team
	if err := c.write(ctx, cmdUpdateTeam, updateCommand{ID: id, Patch: p}, o, &out); err != nil {
		return nil, err
	}
	return &out, out.finish(c.state.View().config)
}

// DeleteTeams deletes teams and, in the same step, all keys that name them. If
// one of the teams does not exist nothing is deleted: ErrNotFound.
func (c *Client) DeleteTeams(ctx context.Context, ids []string, o WriteOptions) (deleted []string, err error) {
	err = c.write(ctx, cmdDeleteTeams, deleteCommand{IDs: ids}, o, &deleted)
	return deleted, err
}

// Outcomes of a configuration write.
const (
	StatusApplied   = "applied"   // it is the new version
	StatusUnchanged = "unchanged" // it is what holds already
	StatusStale     = "stale"     // it held earlier and was replaced; not applied
)

// ConfigResult is the outcome of a configuration write.
type ConfigResult struct {
	Version uint64 `json:"version"` // that holds now
	Status  string `json:"status"`
}

// ProposeConfig offers a file's content: content never seen before becomes the
// new version, content that was current earlier is stale and not applied.
// source says where it comes from, for the history.
func (c *Client) ProposeConfig(ctx context.Context, cfg Config, source string) (ConfigResult, error) {
	return c.writeConfig(ctx, cmdProposeConfig, &configCommand{Config: cfg, Source: source}, WriteOptions{})
}

// ProposeInitialConfig offers the content of a node whose own file says nothing
// cluster-wide: it becomes version 1 of a cluster that has none, and otherwise
// nothing changes.
func (c *Client) ProposeInitialConfig(ctx context.Context, cfg Config, source string) (ConfigResult, error) {
	return c.writeConfig(ctx, cmdProposeConfig, &configCommand{Config: cfg, Source: source, Initial: true}, WriteOptions{})
}

// ApplyConfig makes the content the new version, whatever held before.
func (c *Client) ApplyConfig(ctx context.Context, cfg Config, source string, o WriteOptions) (ConfigResult, error) {
	return c.writeConfig(ctx, cmdApplyConfig, &configCommand{Config: cfg, Source: source}, o)
}

func (c *Client) writeConfig(ctx context.Context, kind commandType, body *configCommand, o WriteOptions) (ConfigResult, error) {
	body.Config = body.Config.Normalize()
	if problems := body.Config.Validate(); len(problems) > 0 {
		return ConfigResult{}, &InvalidConfigError{Problems: problems}
	}
	var out ConfigResult
	err := c.write(ctx, kind, body, o, &out)
	return out, err
}

// RollbackConfig makes the content of an earlier version the new version.
// ErrNotFound if the history does not hold it.
func (c *Client) RollbackConfig(ctx context.Context, version uint64, o WriteOptions) (ConfigResult, error) {
	var out ConfigResult
	err := c.write(ctx, cmdRollbackConfig, rollbackCommand{Version: version}, o, &out)
	return out, err
}

// SetShare puts one entry into the reservation table, as a new version.
func (c *Client) SetShare(ctx context.Context, name string, share limiter.Share, o WriteOptions) (ConfigResult, error) {
	var out ConfigResult
	err := c.write(ctx, cmdSetShare, shareCommand{Name: name, Share: &share}, o, &out)
	return out, err
}

// UnsetShare takes one entry out of the reservation table, as a new version.
// ErrNotFound if it is not there.
func (c *Client) UnsetShare(ctx context.Context, name string, o WriteOptions) (ConfigResult, error) {
	var out ConfigResult
	err := c.write(ctx, cmdSetShare, shareCommand{Name: name}, o, &out)
	return out, err
}

// SetSilent stops counting the concurrency slots of a node's process run, or
// counts them again. limiter.ErrOldEpoch if the node has another run by now.
func (c *Client) SetSilent(ctx context.Context, node string, epoch uint64, silent bool) error {
	var none any
	return c.write(ctx, cmdSetSilent, silentCommand{Node: node, Epoch: epoch, Silent: silent}, WriteOptions{}, &none)
}

// write sends a management command and decodes its result into out.
func (c *Client) write(ctx context.Context, kind commandType, body any, o WriteOptions, out any) error {
	if len(o.IdempotencyKey) > maxIdempotencyKey {
		return invalid("Idempotency-Key", "is longer than %d bytes", maxIdempotencyKey)
	}
	payload, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode command: %w", err)
	}
	cmd := command{kind: kind, key: o.IdempotencyKey, payload: payload}
	if err := cmd.check(); err != nil {
		return fmt.Errorf("check command: %w", err)
	}
	if err := c.understood(ctx, kind); err != nil {
		return err
	}
	return c.send(ctx, cmd, out)
}

// send puts a command into the log, decodes its result into out and waits until
// this replica has applied it.
func (c *Client) send(ctx context.Context, cmd command, out any) error {
	answer, index, err := c.log.Apply(ctx, cmd.encode())
	if err != nil {
		return fmt.Errorf("write to the log: %w", err)
	}
	result, err := decodeAnswer(answer)
	if err != nil {
		return err
	}
	if err := decodeJSON(result, out); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	if err := c.state.WaitApplied(ctx, index); err != nil {
		return fmt.Errorf("wait for this node to apply the write: %w", err)
	}
	return nil
}

// Applier returns what the Gate of this node writes its batches through. nonce
// names the process run.
func (c *Client) Applier(nodeID, nonce string) limiter.Applier {
	return &applier{log: c.log, node: nodeID, nonce: nonce}
}

// applier replicates batches. It does not wait for the local replica: the
// answer comes from the log, and limits are not read here.
type applier struct {
	log   Replicator
	node  string
	nonce string
}

var _ limiter.Applier = (*applier)(nil)

// ApplyBatch replicates one batch.
func (a *applier) ApplyBatch(ctx context.Context, b *limiter.Batch) (*limiter.Answer, error) {
	result, err := a.send(ctx, command{kind: cmdBatch, payload: appendBatch(nil, b)})
	if err != nil {
		return nil, fmt.Errorf("replicate batch: %w", err)
	}
	answer, err := readAnswer(result)
	if err != nil {
		return nil, fmt.Errorf("decode batch answer: %w", err)
	}
	return answer, nil
}

// Register opens a new epoch.
func (a *applier) Register(ctx context.Context) (uint64, error) {
	payload, err := json.Marshal(registerCommand{Node: a.node, Nonce: a.nonce})
	if err != nil {
		return 0, fmt.Errorf("encode registration: %w", err)
	}
	result, err := a.send(ctx, command{kind: cmdRegister, payload: payload})
	if err != nil {
		return 0, fmt.Errorf("register node: %w", err)
	}
	var epoch uint64
	if err := json.Unmarshal(result, &epoch); err != nil {
		return 0, fmt.Errorf("decode registration: %w", err)
	}
	return epoch, nil
}

func (a *applier) send(ctx context.Context, cmd command) ([]byte, error) {
	answer, _, err := a.log.Apply(ctx, cmd.encode())
	if err != nil {
		return nil, err
	}
	return decodeAnswer(answer)
}
