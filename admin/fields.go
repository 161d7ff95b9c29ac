package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/fsm"
	"sluice/limiter"
)

// kind is the form of a documented member of a body.
type kind int

const (
	kindAny      kind = iota
	kindText          // a string
	kindTexts         // a list of strings
	kindObject        // an object
	kindFlag          // true or false
	kindLimit         // a whole number ≥ 0
	kindLimits        // an object of kindLimit
	kindMoney         // a number ≥ 0; "" stands for null, as LiteLLM reads it
	kindLifetime      // a string of ParseLifetime
)

// keyKinds are the members of /key/generate and /key/update that act.
var keyKinds = map[string]kind{
	"key_alias": kindText, "duration": kindLifetime, "models": kindTexts, "user_id": kindText, "team_id": kindText,
	"metadata": kindObject, "rpm_limit": kindLimit, "tpm_limit": kindLimit, "max_parallel_requests": kindLimit,
	"model_rpm_limit": kindLimits, "model_tpm_limit": kindLimits, "blocked": kindFlag,
}

// keyExtras are the documented members that are kept and shown, and act on nothing yet.
var keyExtras = map[string]kind{
	"aliases": kindObject, "config": kindObject, "spend": kindMoney, "max_budget": kindMoney, "soft_budget": kindMoney,
	"budget_duration": kindLifetime, "budget_id": kindText, "model_max_budget": kindObject, "budget_fallbacks": kindObject,
	"rpm_limit_type": kindText, "tpm_limit_type": kindText, "organization_id": kindText, "project_id": kindText, "agent_id": kindText,
	"tags": kindTexts, "guardrails": kindTexts, "policies": kindTexts, "prompts": kindTexts, "enforced_params": kindTexts,
	"permissions": kindObject, "allowed_cache_controls": kindTexts, "object_permission": kindObject, "access_group_ids": kindTexts,
	"allowed_routes": kindTexts, "key_type": kindText, "router_settings": kindObject, "auto_rotate": kindFlag,
	"rotation_interval": kindLifetime, "allowed_passthrough_routes": kindTexts, "allowed_vector_store_indexes": kindTexts,
	"temp_budget_increase": kindMoney, "temp_budget_expiry": kindText,
}

// teamKinds are the members of /team/new and /team/update that act.
var teamKinds = map[string]kind{
	"team_alias": kindText, "models": kindTexts, "metadata": kindObject, "rpm_limit": kindLimit, "tpm_limit": kindLimit,
	"max_parallel_requests": kindLimit, "model_rpm_limit": kindLimits, "model_tpm_limit": kindLimits, "blocked": kindFlag,
}

// teamExtras are kept and shown.
var teamExtras = map[string]kind{
	"organization_id": kindText, "members_with_roles": kindAny, "admins": kindTexts, "members": kindTexts, "max_budget": kindMoney,
	"soft_budget": kindMoney, "budget_duration": kindLifetime, "model_aliases": kindObject, "tags": kindTexts, "guardrails": kindTexts,
	"policies": kindTexts, "prompts": kindTexts, "rpm_limit_type": kindText, "tpm_limit_type": kindText, "team_member_budget": kindMoney,
	"team_member_budget_duration": kindLifetime, "team_member_rpm_limit": kindLimit, "team_member_tpm_limit": kindLimit,
	"team_member_key_duration": kindLifetime, "team_member_permissions": kindTexts, "router_settings": kindObject,
	"access_group_ids": kindTexts, "object_permission": kindObject, "allowed_passthrough_routes": kindTexts,
	"secret_manager_settings": kindObject, "team_member_model_max_budget": kindObject,
}

// pick checks the members of a body that kinds names and returns them, null
// included; everything else in the body is left where it is. All members of the
// wrong type are named at once.
func (f fields) pick(kinds map[string]kind) (fields, error) {
	picked := make(fields)
	var wrong []validation
	var first error
	for _, name := range sortedKeys(f) {
		k, known := kinds[name]
		if !known {
			continue
		}
		raw, err := k.check(name, f[name])
		var e *Error
		if list, ok := []validation(nil), false; errors.As(err, &e) {
			if list, ok = e.Detail.([]validation); ok {
				wrong = append(wrong, list...)
			} else if first == nil {
				first = e
			}
		}
		picked[name] = raw
	}
	if len(wrong) > 0 {
		return nil, unprocessable(wrong...)
	}
	return picked, first
}

// check returns the canonical form of a value, or an *Error that names the field:
// 422 for a value of the wrong type, 400 for one that cannot be.
func (k kind) check(name string, raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return raw, nil
	}
	switch k {
	case kindText:
		return raw, unmarshalAs[string](name, raw, "string_type", "Input should be a valid string")
	case kindTexts:
		_, err := fields{name: raw}.texts(name)
		return raw, err
	case kindObject:
		return raw, unmarshalAs[map[string]json.RawMessage](name, raw, "dict_type", "Input should be a valid dictionary")
	case kindFlag:
		return raw, unmarshalAs[bool](name, raw, "bool_type", "Input should be a valid boolean")
	case kindLimit:
		return checkLimit(raw, name)
	case kindLimits:
		return checkLimits(name, raw)
	case kindMoney:
		return checkMoney(name, raw)
	case kindLifetime:
		s, err := fields{name: raw}.text(name)
		if err != nil {
			return nil, err
		}
		if _, err := ParseLifetime(s); err != nil {
			return nil, badRequest(name, "%s: %v", name, err)
		}
	}
	return raw, nil
}

func unmarshalAs[T any](name string, raw json.RawMessage, kind, msg string) error {
	var v T
	if json.Unmarshal(raw, &v) != nil {
		return wrongType(kind, msg, raw, "body", name)
	}
	return nil
}

// checkLimit reads a limit: a whole number from 0, where 0 blocks.
func checkLimit(raw json.RawMessage, loc ...string) (json.RawMessage, error) {
	name := strings.Join(loc, ".")
	loc = append([]string{"body"}, loc...)
	f, err := strconv.ParseFloat(string(raw), 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // f is infinite, which is a number too large
	}
	switch {
	case err != nil || strings.Trim(string(raw), "0123456789+-.eE") != "":
		return nil, wrongType("int_type", "Input should be a valid integer", raw, loc...)
	case f < 0:
		return nil, badRequest(name, "%s cannot be negative. Received: %s. Send null for no limit, 0 to block.", name, clip(string(raw)))
	case f != math.Trunc(f):
		return nil, wrongType("int_from_float", "Input should be a valid integer, got a number with a fractional part", raw, loc...)
	}
	var l limiter.Limit
	if l.UnmarshalJSON(raw) != nil {
		return nil, badRequest(name, "%s is too large. Send null for no limit.", name)
	}
	return l.MarshalJSON()
}

func checkLimits(name string, raw json.RawMessage) (json.RawMessage, error) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil, wrongType("dict_type", "Input should be a valid dictionary", raw, "body", name)
	}
	for _, model := range sortedKeys(m) {
		l, err := m[model], error(nil)
		if string(bytes.TrimSpace(l)) == "null" {
			delete(m, model)
			continue
		}
		if m[model], err = checkLimit(bytes.TrimSpace(l), name, clip(model)); err != nil {
			return nil, err
		}
	}
	return json.Marshal(m)
}

func checkMoney(name string, raw json.RawMessage) (json.RawMessage, error) {
	if string(raw) == `""` {
		return json.RawMessage("null"), nil
	}
	var v float64
	if json.Unmarshal(raw, &v) != nil {
		return nil, wrongType("float_type", "Input should be a valid number", raw, "body", name)
	}
	if v < 0 {
		return nil, badRequest(name, "%s cannot be negative. Received: %s", name, clip(string(raw)))
	}
	return raw, nil
}

// liftModelLimits moves model_rpm_limit and model_tpm_limit out of metadata,
// where LiteLLM keeps them and shows them, into members of their own. Metadata
// is replaced as a whole, so without them it clears them.
func (f fields) liftModelLimits() error {
	if _, sent := f["metadata"]; !sent {
		return nil
	}
	meta := make(map[string]json.RawMessage)
	if !f.isNull("metadata") {
		if err := json.Unmarshal(f["metadata"], &meta); err != nil {
			return badRequest("metadata", "metadata is not a JSON object.")
		}
	}
	for _, name := range []string{"model_rpm_limit", "model_tpm_limit"} {
		inside, held := meta[name]
		delete(meta, name)
		if _, sent := f[name]; sent {
			continue
		}
		f[name] = json.RawMessage("null")
		if held {
			checked, err := kindLimits.check(name, inside)
			if err != nil {
				return err
			}
			f[name] = checked
		}
	}
	if p, ok := meta["priority"]; ok && unmarshalAs[*string]("priority", p, "", "") != nil {
		return badRequest("metadata.priority", "metadata.priority must be the name of a priority or null.")
	}
	b, err := json.Marshal(meta)
	if err != nil {
		return badRequest("metadata", "metadata cannot be kept.")
	}
	f["metadata"] = b
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// present returns the members that are not null, nil if there are none.
func (f fields) present() map[string]json.RawMessage {
	var kept map[string]json.RawMessage
	for name, raw := range f {
		if !f.isNull(name) {
			if kept == nil {
				kept = make(map[string]json.RawMessage, len(f))
			}
			kept[name] = raw
		}
	}
	return kept
}

// newRecord builds a record from checked members; fsm's JSON names are the wire's.
func newRecord[T any](set fields) (*T, error) {
	b, err := json.Marshal(set)
	if err != nil {
		return nil, badRequest("", "The request body cannot be kept.")
	}
	record := new(T)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // metadata comes back with all its digits
	if err := dec.Decode(record); err != nil {
		return nil, badRequest("", "The request body cannot be kept.")
	}
	return record, nil
}

// patchOf joins the members that act with those that are only kept; fsm tells
// them apart by their names.
func patchOf(set, extra fields) fsm.Patch {
	p := make(fsm.Patch, len(set)+len(extra))
	maps.Copy(p, fsm.Patch(set))
	maps.Copy(p, fsm.Patch(extra))
	return p
}

func blockPatch(blocked bool) fsm.Patch {
	return fsm.Patch{"blocked": json.RawMessage(strconv.FormatBool(blocked))}
}
