package fsm

func (t *txn) createTeam(team *Team) (any, error) {
	if team.CreatedAt.IsZero() {
		team.CreatedAt = t.at
	}
	if team.UpdatedAt.IsZero() {
		team.UpdatedAt = team.CreatedAt
	}
	if err := team.finish(t.view.config); err != nil {
		return nil, err
	}
	if _, taken := t.view.teams.get(team.ID); taken {
		return nil, ErrExists
	}
	t.putTeam(team)
	return team, nil
}

func (t *txn) updateTeam(c *updateCommand) (any, error) {
	old, ok := t.view.teams.get(c.ID)
	if !ok {
		return nil, ErrNotFound
	}
	fresh, err := old.patched(c.Patch, t.at, t.view.config)
	if err != nil {
		return nil, err
	}
	t.putTeam(fresh)
	return fresh, nil
}

func (t *txn) putTeam(team *Team) {
	t.view.teams = t.view.teams.with(team.ID, team)
	t.dirty.team(team.ID)
	t.changed = true
}

// deleteTeams removes the teams and their keys in one step, so that no key is
// ever free of its team's limits.
func (t *txn) deleteTeams(c *deleteCommand) (any, error) {
	gone := make(map[string]bool, len(c.IDs))
	deleted := []string{}
	teams := t.view.teams.edit()
	for _, id := range c.IDs {
		if gone[id] {
			continue
		}
		if _, ok := teams.next.get(id); !ok {
			return nil, ErrNotFound
		}
		gone[id] = true
		teams.remove(id)
		t.dirty.team(id)
		deleted = append(deleted, id)
	}
	if len(deleted) == 0 {
		return nil, ErrNotFound
	}
	keys, aliases := t.view.keys.edit(), t.view.aliases.edit()
	for _, k := range t.view.keys.all {
		if gone[k.TeamID] {
			t.dropKey(keys, aliases, k)
		}
	}
	t.view.teams, t.view.keys, t.view.aliases = teams.done(), keys.done(), aliases.done()
	t.changed = true
	return deleted, nil
}
