package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"sluice/fsm"
)

// maxTeamID is the longest team id in bytes.
const maxTeamID = 255

// newTeam answers POST /team/new.
func (a *Admin) newTeam(ctx context.Context, c *call) (any, error) {
	id, err := c.body.text("team_id")
	if err != nil {
		return nil, err
	}
	if id == "" {
		// Random even with an Idempotency-Key: a repetition gets the first answer.
		if id, err = newUUID(a.o.Rand); err != nil {
			return nil, err
		}
	}
	if !printable(id, maxTeamID) {
		return nil, badRequest("team_id", "team_id has 1 to %d visible ASCII characters.", maxTeamID)
	}
	c.target = clip(id)
	set, extra, err := teamFields(c.body)
	if err != nil {
		return nil, err
	}
	team, err := newRecord[fsm.Team](set)
	if err != nil {
		return nil, err
	}
	team.ID, team.Extra = id, extra.present()
	t, err := a.o.Store.CreateTeam(ctx, *team, c.write)
	if err == nil && t.ID != id && !c.body.isNull("team_id") {
		return nil, errOtherTarget
	}
	if errors.Is(err, fsm.ErrExists) {
		return nil, &Error{Status: http.StatusConflict, Param: "team_id", Message: "Team id = " + clip(id) + " already exists. Please use a different team id."}
	}
	if err != nil {
		return nil, err
	}
	return teamRow(t), nil
}

func teamFields(body fields) (set, extra fields, err error) {
	if set, err = body.pick(teamKinds); err != nil {
		return nil, nil, err
	}
	if extra, err = body.pick(teamExtras); err != nil {
		return nil, nil, err
	}
	return set, extra, set.liftModelLimits()
}

// updateTeam answers POST /team/update.
func (a *Admin) updateTeam(ctx context.Context, c *call) (any, error) {
	id, err := c.body.required("team_id")
	if err != nil {
		return nil, err
	}
	c.target = clip(id)
	set, extra, err := teamFields(c.body)
	if err != nil {
		return nil, err
	}
	t, err := a.o.Store.UpdateTeam(ctx, id, patchOf(set, extra), c.write)
	if err != nil {
		return nil, aboutTeam(err, id)
	}
	if t.ID != id {
		return nil, errOtherTarget
	}
	return TeamUpdated{TeamID: t.ID, Data: teamRow(t)}, nil
}

// deleteTeams answers POST /team/delete; the teams' keys go with them.
func (a *Admin) deleteTeams(ctx context.Context, c *call) (any, error) {
	ids, err := c.body.texts("team_ids")
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, missing("body", "team_ids")
	}
	c.target = clip(ids[0])
	deleted, err := a.o.Store.DeleteTeams(ctx, ids, c.write)
	if err != nil {
		if len(ids) > 1 && errors.Is(err, fsm.ErrNotFound) {
			return nil, notFound("team_ids", "Team not found: at least one of the %d team_ids does not exist. Nothing was deleted.", len(ids))
		}
		return nil, aboutTeam(err, ids[0])
	}
	if !within(deleted, ids) || !within(ids, deleted) {
		return nil, errOtherTarget
	}
	return TeamsDeleted{DeletedTeams: ids}, nil
}

func (a *Admin) blockTeam(ctx context.Context, c *call) (any, error) {
	return a.setTeamBlocked(ctx, c, true)
}

func (a *Admin) unblockTeam(ctx context.Context, c *call) (any, error) {
	return a.setTeamBlocked(ctx, c, false)
}

func (a *Admin) setTeamBlocked(ctx context.Context, c *call, blocked bool) (any, error) {
	id, err := c.body.required("team_id")
	if err != nil {
		return nil, err
	}
	c.target = clip(id)
	t, err := a.o.Store.UpdateTeam(ctx, id, blockPatch(blocked), c.write)
	if err != nil {
		return nil, aboutTeam(err, id)
	}
	if t.ID != id {
		return nil, errOtherTarget
	}
	return teamRow(t), nil
}

// aboutTeam words the store's refusals for a team.
func aboutTeam(err error, id string) error {
	if errors.Is(err, fsm.ErrNotFound) {
		return notFound("team_id", "Team not found, passed team_id=%s", clip(id))
	}
	return err
}

// teamInfo answers GET /team/info: any team for the master key, its own for a
// virtual key.
func (a *Admin) teamInfo(_ context.Context, c *call) (any, error) {
	id := c.query.Get("team_id")
	if id == "" {
		return nil, missing("query", "team_id")
	}
	if !c.caller.Master && id != c.caller.TeamID {
		return nil, &Error{Status: http.StatusForbidden, Message: "This key is not authorized to access this team=" + clip(id)}
	}
	v := a.o.State.View()
	t, ok := v.Team(id)
	if !ok {
		return nil, &Error{Status: http.StatusNotFound, Type: "auth_error", Param: "team_id", Message: "Team not found, passed team id: " + clip(id) + "."}
	}
	return TeamInfoAnswer{TeamID: t.ID, TeamInfo: TeamInfo{TeamRow: teamRow(t), TeamMemberBudgetTable: Raw("null")},
		Keys: keyRows(v.TeamKeys(id)), TeamMemberships: []Raw{}}, nil
}

// listTeams answers GET /team/list?user_id=&organization_id=, by alias. Keys are
// gathered in one pass.
func (a *Admin) listTeams(_ context.Context, c *call) (any, error) {
	v := a.o.State.View()
	keys := make(map[string][]*fsm.Key)
	for k := range v.Keys {
		if k.TeamID != "" {
			keys[k.TeamID] = append(keys[k.TeamID], k)
		}
	}
	rows := make([]TeamListRow, 0, v.TeamCount())
	for t := range v.Teams {
		if !teamMatches(t, c.query) {
			continue
		}
		slices.SortFunc(keys[t.ID], func(x, y *fsm.Key) int { return cmp.Compare(x.ID, y.ID) })
		rows = append(rows, TeamListRow{TeamRow: teamRow(t), Keys: keyRows(keys[t.ID]), TeamMemberships: []Raw{}})
	}
	slices.SortFunc(rows, func(x, y TeamListRow) int {
		return cmp.Or(cmp.Compare(deref(x.TeamAlias), deref(y.TeamAlias)), cmp.Compare(x.TeamID, y.TeamID))
	})
	return rows, nil
}

func teamMatches(t *fsm.Team, q url.Values) bool {
	if want := q.Get("organization_id"); want != "" && want != extras(t.Extra).text("organization_id") {
		return false
	}
	want := q.Get("user_id")
	if want == "" {
		return true
	}
	var members []struct {
		UserID string `json:"user_id"`
	}
	if json.Unmarshal(extras(t.Extra).get("members_with_roles", creatorMember), &members) != nil {
		return false // kept as it came, in a form that names no users
	}
	for _, m := range members {
		if m.UserID == want {
			return true
		}
	}
	return false
}

func keyRows(keys []*fsm.Key) []KeyRow {
	rows := make([]KeyRow, len(keys))
	for i, k := range keys {
		rows[i] = keyRow(k)
	}
	return rows
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
