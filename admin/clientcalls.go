package admin

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/fsm"
	"sluice/limiter"
)

// Fields are the members of a request body. A nil value clears on update.
type Fields map[string]any

func (f Fields) with(name string, value any) Fields {
	g := Fields{name: value}
	for k, v := range f {
		if k != name {
			g[k] = v
		}
	}
	return g
}

// GenerateKey creates a key. The answer holds the secret, which nothing shows again.
func (c *Client) GenerateKey(ctx context.Context, f Fields) (*KeyCreated, error) {
	return post[KeyCreated](ctx, c, "/key/generate", f)
}

// UpdateKey changes the members that f names.
func (c *Client) UpdateKey(ctx context.Context, key string, f Fields) (*KeyUpdated, error) {
	return post[KeyUpdated](ctx, c, "/key/update", f.with("key", keyID(key)))
}

// RegenerateKey gives a key a new secret; the old one stops at once.
func (c *Client) RegenerateKey(ctx context.Context, key string, f Fields) (*KeyCreated, error) {
	return post[KeyCreated](ctx, c, "/key/regenerate", f.with("key", keyID(key)))
}

// DeleteKeys deletes the keys that exist; it is an error if none does.
func (c *Client) DeleteKeys(ctx context.Context, keys []string) (*KeysDeleted, error) {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = keyID(k)
	}
	return post[KeysDeleted](ctx, c, "/key/delete", Fields{"keys": ids})
}

// BlockKey blocks or unblocks a key.
func (c *Client) BlockKey(ctx context.Context, key string, blocked bool) (*KeyRow, error) {
	return post[KeyRow](ctx, c, blockPath("/key/", blocked), Fields{"key": keyID(key)})
}

// KeyInfo shows a key.
func (c *Client) KeyInfo(ctx context.Context, key string) (*KeyInfoAnswer, error) {
	return get[KeyInfoAnswer](ctx, c, "/key/info", url.Values{"key": {keyID(key)}})
}

// ListKeys returns all keys that the filter lets through (team_id, user_id,
// key_alias), newest first. The pages are asked for oldest first: a key that is
// created meanwhile is then at the end and moves no other to the next page.
func (c *Client) ListKeys(ctx context.Context, filter url.Values) ([]KeyRow, error) {
	query := url.Values{}
	for name, v := range filter {
		query[name] = slices.Clone(v)
	}
	query.Set("return_full_object", "true")
	query.Set("size", "100")
	query.Set("sort_order", "asc")
	rows := []KeyRow{}
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		out, err := get[KeyList[KeyRow]](ctx, c, "/key/list", query)
		if err != nil {
			return nil, err
		}
		rows = append(rows, out.Keys...)
		if len(out.Keys) == 0 || page >= out.TotalPages {
			slices.Reverse(rows)
			return rows, nil
		}
	}
}

// NewTeam creates a team.
func (c *Client) NewTeam(ctx context.Context, f Fields) (*TeamRow, error) {
	return post[TeamRow](ctx, c, "/team/new", f)
}

// UpdateTeam changes the members that f names.
func (c *Client) UpdateTeam(ctx context.Context, id string, f Fields) (*TeamUpdated, error) {
	return post[TeamUpdated](ctx, c, "/team/update", f.with("team_id", id))
}

// DeleteTeams deletes teams and their keys, all of them or none.
func (c *Client) DeleteTeams(ctx context.Context, ids []string) (*TeamsDeleted, error) {
	return post[TeamsDeleted](ctx, c, "/team/delete", Fields{"team_ids": ids})
}

// BlockTeam blocks or unblocks a team.
func (c *Client) BlockTeam(ctx context.Context, id string, blocked bool) (*TeamRow, error) {
	return post[TeamRow](ctx, c, blockPath("/team/", blocked), Fields{"team_id": id})
}

// TeamInfo shows a team and its keys.
func (c *Client) TeamInfo(ctx context.Context, id string) (*TeamInfoAnswer, error) {
	return get[TeamInfoAnswer](ctx, c, "/team/info", url.Values{"team_id": {id}})
}

// ListTeams shows all teams by alias.
func (c *Client) ListTeams(ctx context.Context) ([]TeamListRow, error) {
	out, err := get[[]TeamListRow](ctx, c, "/team/list", nil)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

func blockPath(prefix string, blocked bool) string {
	if blocked {
		return prefix + "block"
	}
	return prefix + "unblock"
}

// Priorities shows the reservation table.
func (c *Client) Priorities(ctx context.Context) (*PriorityList, error) {
	return get[PriorityList](ctx, c, "/priority/list", nil)
}

// SetPriority reserves a share for a priority.
func (c *Client) SetPriority(ctx context.Context, name string, s limiter.Share) (*ConfigWritten, error) {
	return post[ConfigWritten](ctx, c, "/priority/set", Fields{"priority": name, "share": s})
}

// UnsetPriority takes a priority out of the table.
func (c *Client) UnsetPriority(ctx context.Context, name string) (*ConfigWritten, error) {
	return post[ConfigWritten](ctx, c, "/priority/unset", Fields{"priority": name})
}

// Models shows the deployments of all models.
func (c *Client) Models(ctx context.Context) (*ModelInfo, error) {
	return get[ModelInfo](ctx, c, "/model/info", nil)
}

// Limits shows the running windows of one model, of all for "".
func (c *Client) Limits(ctx context.Context, model string) (*LimitsAnswer, error) {
	query := url.Values{}
	if model != "" {
		query.Set("model", model)
	}
	return get[LimitsAnswer](ctx, c, "/limits", query)
}

// ExplainLimits says what one more request would meet. key may be "" for the
// master key; tokens is what the request would reserve, 0 for the least.
func (c *Client) ExplainLimits(ctx context.Context, model, key string, tokens int64) (*ExplainAnswer, error) {
	query := url.Values{"model": {model}}
	if key != "" {
		if strings.HasPrefix(key, secretPrefix) {
			key = hashSecret(key)
		}
		query.Set("key", key) // an alias may have capitals
	}
	if tokens != 0 {
		query.Set("tokens", strconv.FormatInt(tokens, 10))
	}
	return get[ExplainAnswer](ctx, c, "/limits/explain", query)
}

// ClusterStatus shows the cluster as the server sees it.
func (c *Client) ClusterStatus(ctx context.Context) (*ClusterStatus, error) {
	return get[ClusterStatus](ctx, c, "/cluster/status", nil)
}

// RemoveNode takes a node out of the cluster.
func (c *Client) RemoveNode(ctx context.Context, id string) (*NodeAnswer, error) {
	return post[NodeAnswer](ctx, c, "/cluster/remove", Fields{"node": id})
}

// TransferLeadership hands leadership to a node, to any for "".
func (c *Client) TransferLeadership(ctx context.Context, id string) (*NodeAnswer, error) {
	return post[NodeAnswer](ctx, c, "/cluster/transfer", Fields{"node": id})
}

// Config shows the configuration that holds.
func (c *Client) Config(ctx context.Context) (*ConfigAnswer, error) {
	return get[ConfigAnswer](ctx, c, "/config", nil)
}

// ApplyConfig makes cfg the new version; source is shown in the history.
func (c *Client) ApplyConfig(ctx context.Context, cfg fsm.Config, source string) (*ConfigWritten, error) {
	return post[ConfigWritten](ctx, c, "/config", ConfigRequest{Config: cfg, Source: source})
}

// ConfigHistory shows the versions that a rollback can name.
func (c *Client) ConfigHistory(ctx context.Context) (*ConfigHistory, error) {
	return get[ConfigHistory](ctx, c, "/config/history", nil)
}

// RollbackConfig makes an earlier version's content the new version.
func (c *Client) RollbackConfig(ctx context.Context, version uint64) (*ConfigWritten, error) {
	return post[ConfigWritten](ctx, c, "/config/rollback", Fields{"version": version})
}
