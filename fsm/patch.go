package fsm

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"sluice/limiter"
)

// Patch changes a key or team: JSON field name → new value. Fields that are
// present change, null clears, others stay. A name that is no field of the
// record belongs to Extra; the member "extra" itself is merged into Extra.
// token, team_id of a team, key_name and the times of creation and update
// cannot be patched.
type Patch map[string]json.RawMessage

// field is where one member of a patch goes.
type field struct {
	to      any    // pointer to decode into
	cleared func() // sets it to its zero value
}

func into[T any](p *T) field {
	return field{to: p, cleared: func() { var zero T; *p = zero }}
}

func (k *Key) fields() map[string]field {
	return map[string]field{
		"key_alias":             into(&k.Alias),
		"team_id":               into(&k.TeamID),
		"user_id":               into(&k.UserID),
		"models":                into(&k.Models),
		"metadata":              into(&k.Metadata),
		"rpm_limit":             into(&k.RPM),
		"tpm_limit":             into(&k.TPM),
		"max_parallel_requests": into(&k.MaxParallel),
		"model_rpm_limit":       into(&k.ModelRPM),
		"model_tpm_limit":       into(&k.ModelTPM),
		"blocked":               into(&k.Blocked),
		"expires":               into(&k.Expires),
	}
}

func (t *Team) fields() map[string]field {
	return map[string]field{
		"team_alias":            into(&t.Alias),
		"models":                into(&t.Models),
		"metadata":              into(&t.Metadata),
		"rpm_limit":             into(&t.RPM),
		"tpm_limit":             into(&t.TPM),
		"max_parallel_requests": into(&t.MaxParallel),
		"model_rpm_limit":       into(&t.ModelRPM),
		"model_tpm_limit":       into(&t.ModelTPM),
		"blocked":               into(&t.Blocked),
	}
}

// apply writes the patch into the fields; the rest goes to extra. Members are
// taken in the order of their names, so that the first error is the same
// everywhere. On an error the fields may be half changed: patch a copy.
func (p Patch) apply(fields map[string]field, fixed []string, extra *map[string]json.RawMessage) error {
	merged := maps.Clone(*extra)
	if merged == nil {
		merged = map[string]json.RawMessage{}
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		raw := p[name]
		f, known := fields[name]
		switch {
		case slices.Contains(fixed, name):
			return invalid(name, "cannot be changed")
		case name == "extra":
			if err := mergeExtra(merged, raw); err != nil {
				return err
			}
		case !known:
			setExtra(merged, name, raw)
		case isNull(raw):
			f.cleared()
		default:
			f.cleared() // JSON decoding into a map would merge
			if err := decodeJSON(raw, f.to); err != nil {
				return invalid(name, "%s", jsonFault(err))
			}
		}
	}
	*extra = nil
	if len(merged) > 0 {
		*extra = merged
	}
	return nil
}

func mergeExtra(into map[string]json.RawMessage, raw json.RawMessage) error {
	if isNull(raw) {
		clear(into)
		return nil
	}
	var members map[string]json.RawMessage
	if err := decodeJSON(raw, &members); err != nil {
		return invalid("extra", "%s", jsonFault(err))
	}
	for name, v := range members {
		setExtra(into, name, v)
	}
	return nil
}

func setExtra(into map[string]json.RawMessage, name string, raw json.RawMessage) {
	if isNull(raw) {
		delete(into, name)
		return
	}
	into[name] = raw
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// patched returns a changed copy of the key; the key itself stays.
func (k *Key) patched(p Patch, now time.Time, c *Compiled) (*Key, error) {
	fresh := *k
	if err := p.apply(fresh.fields(), []string{"token", "key_name", "created_at", "updated_at"}, &fresh.Extra); err != nil {
		return nil, err
	}
	fresh.UpdatedAt = now
	return &fresh, fresh.finish(c)
}

func (t *Team) patched(p Patch, now time.Time, c *Compiled) (*Team, error) {
	fresh := *t
	if err := p.apply(fresh.fields(), []string{"team_id", "created_at", "updated_at"}, &fresh.Extra); err != nil {
		return nil, err
	}
	fresh.UpdatedAt = now
	return &fresh, fresh.finish(c)
}

// perModel joins the two tables of per-model limits under the names that
// counters use: what an alias says holds for its target. Where two names mean
// the same group the tighter limit holds.
func perModel(rpm, tpm map[string]limiter.Limit, c *Compiled) map[string]limiter.Limits {
	if len(rpm)+len(tpm) == 0 {
		return nil
	}
	out := make(map[string]limiter.Limits, len(rpm)+len(tpm))
	for name, l := range rpm {
		group := groupOf(name, c)
		limits := out[group]
		limits.Requests = tighter(limits.Requests, l)
		out[group] = limits
	}
	for name, l := range tpm {
		group := groupOf(name, c)
		limits := out[group]
		limits.Tokens = tighter(limits.Tokens, l)
		out[group] = limits
	}
	return out
}

func groupOf(name string, c *Compiled) string {
	if r, ok := c.Resolve(name); ok {
		return r.Group
	}
	return name
}

func tighter(a, b limiter.Limit) limiter.Limit {
	m, aSet := a.Get()
	n, bSet := b.Get()
	if !aSet || bSet && n < m {
		return b
	}
	return a
}
