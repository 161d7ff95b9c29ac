package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"sluice/fsm"
)

// generateKey answers POST /key/generate.
func (a *Admin) generateKey(ctx context.Context, c *call) (any, error) {
	secret, err := a.chosenSecret(c, "key")
	if err != nil {
		return nil, err
	}
	set, extra, err := keyFields(c.body, c.now)
	if err != nil {
		return nil, err
	}
	if err := a.requireTeam(ctx, set); err != nil {
		return nil, err
	}
	key, err := newRecord[fsm.Key](set)
	if err != nil {
		return nil, err
	}
	key.ID, key.Name, key.Extra = hashSecret(secret), nameSecret(secret), extra.present()
	key.CreatedAt = c.now // by the clock that set the expiry, so that they differ by exactly the duration
	key.UpdatedAt = key.CreatedAt
	c.target = shortID(key.ID)
	k, err := a.o.Store.CreateKey(ctx, *key, c.write)
	if err != nil {
		return nil, aboutKey(err)
	}
	return showSecret(k, secret)
}

// chosenSecret returns the secret that the body asks for, else a new one.
func (a *Admin) chosenSecret(c *call, field string) (string, error) {
	secret, err := c.body.text(field)
	if err != nil {
		return "", err
	}
	if secret == "" {
		purpose := ""
		if field == "new_key" {
			purpose = "regenerate\x00"
		}
		return a.newSecret(purpose, c.idempotency)
	}
	return secret, a.checkSecret(field, secret)
}

// keyFields returns the members of a body that act, in fsm's form, and those
// that are only kept. A duration becomes the expiry that it has from now.
func keyFields(body fields, now time.Time) (set, extra fields, err error) {
	if set, err = body.pick(keyKinds); err != nil {
		return nil, nil, err
	}
	if extra, err = body.pick(keyExtras); err != nil {
		return nil, nil, err
	}
	if err := set.liftModelLimits(); err != nil {
		return nil, nil, err
	}
	if _, sent := set["duration"]; !sent {
		return set, extra, nil
	}
	expires := json.RawMessage("null")
	text, err := set.text("duration")
	if err != nil {
		return nil, nil, err
	}
	if text != "" {
		life, err := ParseLifetime(text)
		if err != nil {
			return nil, nil, badRequest("duration", "%v", err)
		}
		if !life.Forever() {
			if expires, err = json.Marshal(life.From(now)); err != nil {
				return nil, nil, badRequest("duration", "duration ends too late.")
			}
		}
	}
	delete(set, "duration")
	set["expires"] = expires
	return set, extra, nil
}

// requireTeam refuses a team that does not exist: the key would silently lack
// the limits and the priority that were meant. It catches mistakes, not races:
// a team that is deleted in the same moment leaves the key without one.
func (a *Admin) requireTeam(ctx context.Context, set fields) error {
	team, err := set.text("team_id")
	if err != nil || team == "" {
		return err
	}
	a.refresh(ctx) // it may have been created on another node a moment ago
	if _, ok := a.o.State.View().Team(team); !ok {
		for t := range a.o.State.View().Teams {
			if t.Alias == team {
				return badRequest("team_id", "Team not found, passed team_id=%s. That is a team's alias; use its id %s.", clip(team), t.ID)
			}
		}
		return badRequest("team_id", "Team not found, passed team_id=%s. Create it with /team/new first.", clip(team))
	}
	return nil
}

// updateKey answers POST /key/update.
func (a *Admin) updateKey(ctx context.Context, c *call) (any, error) {
	given, err := c.body.required("key")
	if err != nil {
		return nil, err
	}
	id := keyID(given)
	c.target = shortID(id)
	set, extra, err := keyFields(c.body, c.now)
	if err != nil {
		return nil, err
	}
	if err := a.requireTeam(ctx, set); err != nil {
		return nil, err
	}
	k, err := a.o.Store.UpdateKey(ctx, id, patchOf(set, extra), c.write)
	if err != nil {
		return nil, aboutKey(err)
	}
	if k.ID != id {
		return nil, errOtherTarget
	}
	return KeyUpdated{Key: k.ID, KeyRow: keyRow(k)}, nil
}

// deleteKeys answers POST /key/delete.
func (a *Admin) deleteKeys(ctx context.Context, c *call) (any, error) {
	keys, err := c.body.texts("keys")
	if err != nil {
		return nil, err
	}
	aliases, err := c.body.texts("key_aliases")
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 && len(aliases) == 0 {
		return nil, missing("body", "keys")
	}
	ids := make([]string, 0, len(keys)+len(aliases))
	for _, given := range keys {
		ids = append(ids, keyID(given))
	}
	named := slices.Concat(ids, aliases)
	if len(aliases) > 0 {
		a.refresh(ctx) // an alias may have been given on another node a moment ago
	}
	for _, alias := range aliases {
		if k, ok := a.o.State.View().KeyByAlias(alias); ok {
			ids = append(ids, k.ID)
		}
	}
	if len(ids) > 0 {
		c.target = shortID(ids[0])
	}
	deleted, err := a.o.Store.DeleteKeys(ctx, ids, c.write)
	if errors.Is(err, fsm.ErrNotFound) {
		return nil, &Error{Status: http.StatusNotFound, Type: "internal_server_error", Message: "No keys found"}
	}
	if err != nil {
		return nil, err
	}
	if len(aliases) == 0 && !within(deleted, ids) || slices.ContainsFunc(ids, a.hasKey) {
		return nil, errOtherTarget
	}
	return KeysDeleted{DeletedKeys: named}, nil
}

func (a *Admin) hasKey(id string) bool {
	_, ok := a.o.State.View().Key(id)
	return ok
}

// within reports whether all that was deleted was asked for: the answer to a
// repeated Idempotency-Key may be about something else.
func within(deleted, asked []string) bool {
	return !slices.ContainsFunc(deleted, func(id string) bool { return !slices.Contains(asked, id) })
}

func (a *Admin) blockKey(ctx context.Context, c *call) (any, error) {
	return a.setBlocked(ctx, c, true)
}
func (a *Admin) unblockKey(ctx context.Context, c *call) (any, error) {
	return a.setBlocked(ctx, c, false)
}

func (a *Admin) setBlocked(ctx context.Context, c *call, blocked bool) (any, error) {
	given, err := c.body.required("key")
	if err != nil {
		return nil, err
	}
	id := keyID(given)
	if !isKeyID(id) {
		return nil, badRequest("key", "Invalid key format.")
	}
	c.target = shortID(id)
	k, err := a.o.Store.UpdateKey(ctx, id, blockPatch(blocked), c.write)
	if err != nil {
		return nil, aboutKey(err)
	}
	if k.ID != id {
		return nil, errOtherTarget
	}
	row := keyRow(k)
	row.Blocked = &k.Blocked
	return row, nil
}

// regenerateKey answers POST /key/regenerate and /key/{key}/regenerate.
func (a *Admin) regenerateKey(ctx context.Context, c *call) (any, error) {
	given := c.arg
	if given == "" {
		var err error
		if given, err = c.body.text("key"); err != nil {
			return nil, err
		}
	}
	if given == "" {
		return nil, badRequest("key", "No key passed in.")
	}
	if err := refuseRotation(c.body); err != nil {
		return nil, err
	}
	secret, err := a.chosenSecret(c, "new_key")
	if err != nil {
		return nil, err
	}
	set, extra, err := keyFields(c.body, c.now)
	if err != nil {
		return nil, err
	}
	if err := a.requireTeam(ctx, set); err != nil {
		return nil, err
	}
	id := keyID(given)
	c.target = shortID(id)
	k, err := a.o.Store.RegenerateKey(ctx, id, hashSecret(secret), nameSecret(secret), patchOf(set, extra), c.write)
	if err != nil {
		return nil, aboutKey(err)
	}
	return showSecret(k, secret)
}

// errOtherTarget: the answer that the store remembers is not about what was asked.
var errOtherTarget = &Error{Status: http.StatusConflict, Param: "Idempotency-Key", Message: "This Idempotency-Key was used before for something else."}

// showSecret is the one answer that holds a secret. A repetition with another
// chosen key gets the first one's record, whose secret is not this one.
func showSecret(k *fsm.Key, secret string) (any, error) {
	if k.ID != hashSecret(secret) {
		return nil, errOtherTarget
	}
	return keyCreated(k, secret), nil
}

// refuseRotation: what would silently end differently than asked is refused.
func refuseRotation(body fields) error {
	if !body.isNull("new_master_key") {
		return badRequest("new_master_key", "The master key is set in the configuration file and cannot be changed here.")
	}
	grace, err := body.text("grace_period")
	if err != nil {
		return err
	}
	if grace != "" && grace != "0s" {
		return badRequest("grace_period", "grace_period is not supported: the old key stops working at once. Leave it out, or create a second key and delete this one later.")
	}
	return nil
}

// aboutKey words the store's refusals for a key.
func aboutKey(err error) error {
	switch {
	case errors.Is(err, fsm.ErrNotFound):
		return notFound("key", "Key not found in database")
	case errors.Is(err, fsm.ErrExists):
		return &Error{Status: http.StatusConflict, Param: "key", Message: "Key already exists. Choose another, or another Idempotency-Key."}
	}
	return err
}
