package fsm

func (t *txn) createKey(k *Key) (any, error) {
	if k.CreatedAt.IsZero() {
		k.CreatedAt = t.at
	}
	if k.UpdatedAt.IsZero() {
		k.UpdatedAt = k.CreatedAt
	}
	if err := k.finish(t.view.config); err != nil {
		return nil, err
	}
	if _, taken := t.view.keys.get(k.ID); taken {
		return nil, ErrExists
	}
	return k, t.replaceKey(nil, k)
}

func (t *txn) updateKey(c *updateCommand) (any, error) {
	old, ok := t.view.keys.get(c.ID)
	if !ok {
		return nil, ErrNotFound
	}
	fresh, err := old.patched(c.Patch, t.at, t.view.config)
	if err != nil {
		return nil, err
	}
	return fresh, t.replaceKey(old, fresh)
}

func (t *txn) regenerateKey(c *regenerateCommand) (any, error) {
	old, ok := t.view.keys.get(c.ID)
	if !ok {
		return nil, ErrNotFound
	}
	if _, taken := t.view.keys.get(c.NewID); taken {
		return nil, ErrExists
	}
	fresh, err := old.patched(c.Patch, t.at, t.view.config)
	if err != nil {
		return nil, err
	}
	fresh.ID, fresh.Name = c.NewID, c.NewName
	if err := fresh.finish(t.view.config); err != nil {
		return nil, err
	}
	return fresh, t.replaceKey(old, fresh)
}

func (t *txn) deleteKeys(c *deleteCommand) (any, error) {
	deleted := []string{}
	keys, aliases := t.view.keys.edit(), t.view.aliases.edit()
	for _, id := range c.IDs {
		k, ok := keys.next.get(id)
		if !ok {
			continue
		}
		t.dropKey(keys, aliases, k)
		deleted = append(deleted, id)
	}
	if len(deleted) == 0 {
		return nil, ErrNotFound
	}
	t.view.keys, t.view.aliases = keys.done(), aliases.done()
	t.changed = true
	return deleted, nil
}

func (t *txn) dropKey(keys *cowEdit[*Key], aliases *cowEdit[string], k *Key) {
	keys.remove(k.ID)
	if k.Alias != "" {
		aliases.remove(k.Alias)
	}
	t.dirty.key(k.ID)
}

// replaceKey puts fresh in the place of old (nil for none), unless another key
// has its alias, or it moves to a team that does not exist: its keys go with a
// team, so a key of none would silently have no team limits and no priority.
func (t *txn) replaceKey(old, fresh *Key) error {
	if fresh.TeamID != "" && (old == nil || old.TeamID != fresh.TeamID) {
		if _, ok := t.view.teams.get(fresh.TeamID); !ok {
			return invalid("team_id", "no such team; create it first")
		}
	}
	if holder, ok := t.view.aliases.get(fresh.Alias); ok && (old == nil || holder != old.ID) {
		return ErrAliasTaken
	}
	if old != nil && old.ID != fresh.ID {
		t.view.keys = t.view.keys.without(old.ID)
		t.dirty.key(old.ID)
	}
	if old != nil && old.Alias != "" && (old.Alias != fresh.Alias || old.ID != fresh.ID) {
		t.view.aliases = t.view.aliases.without(old.Alias)
	}
	if fresh.Alias != "" && (old == nil || old.Alias != fresh.Alias || old.ID != fresh.ID) {
		t.view.aliases = t.view.aliases.with(fresh.Alias, fresh.ID)
	}
	t.view.keys = t.view.keys.with(fresh.ID, fresh)
	t.dirty.key(fresh.ID)
	t.changed = true
	return nil
}
