package admin

import (
	"encoding/json"
	"maps"
	"time"

	"sluice/fsm"
	"sluice/limiter"
)

// Raw is a documented member that sluice keeps and shows without acting on it.
type Raw = json.RawMessage

// masterUser is the user that the master key stands for.
const masterUser = "default_user_id"

// KeyColumns are what every shape of a key has. Pointers are null where nothing is set.
type KeyColumns struct {
	KeyName     string         `json:"key_name"`
	KeyAlias    *string        `json:"key_alias"`
	UserID      *string        `json:"user_id"`
	TeamID      *string        `json:"team_id"`
	Models      []string       `json:"models"`   // empty: all
	Metadata    map[string]any `json:"metadata"` // holds model_rpm_limit and model_tpm_limit too
	RPM         limiter.Limit  `json:"rpm_limit"`
	TPM         limiter.Limit  `json:"tpm_limit"`
	MaxParallel limiter.Limit  `json:"max_parallel_requests"`
	Blocked     *bool          `json:"blocked"`
	Expires     *string        `json:"expires"`
	CreatedAt   string         `json:"created_at"`
	CreatedBy   string         `json:"created_by"`
	UpdatedAt   string         `json:"updated_at"`
	UpdatedBy   string         `json:"updated_by"`

	Spend                Raw `json:"spend"`
	MaxBudget            Raw `json:"max_budget"`
	BudgetDuration       Raw `json:"budget_duration"`
	BudgetID             Raw `json:"budget_id"`
	ModelMaxBudget       Raw `json:"model_max_budget"`
	Aliases              Raw `json:"aliases"`
	Config               Raw `json:"config"`
	Permissions          Raw `json:"permissions"`
	RouterSettings       Raw `json:"router_settings"`
	AllowedCacheControls Raw `json:"allowed_cache_controls"`
	AllowedRoutes        Raw `json:"allowed_routes"`
	AccessGroupIDs       Raw `json:"access_group_ids"`
	Policies             Raw `json:"policies"`
	OrganizationID       Raw `json:"organization_id"`
	ProjectID            Raw `json:"project_id"`
	AgentID              Raw `json:"agent_id"`
	BudgetTable          Raw `json:"litellm_budget_table"`
}

// KeyCreated answers /key/generate and /key/regenerate. Key is the secret; no
// other answer ever holds it.
type KeyCreated struct {
	Key     string `json:"key"`
	Token   string `json:"token"`
	TokenID string `json:"token_id"`
	KeyColumns
	keyRequestColumns
}

// keyRequestColumns are members of the request that creation repeats.
type keyRequestColumns struct {
	Duration                  Raw `json:"duration"`
	ModelRPMLimit             Raw `json:"model_rpm_limit"`
	ModelTPMLimit             Raw `json:"model_tpm_limit"`
	RPMLimitType              Raw `json:"rpm_limit_type"`
	TPMLimitType              Raw `json:"tpm_limit_type"`
	Guardrails                Raw `json:"guardrails"`
	Prompts                   Raw `json:"prompts"`
	Tags                      Raw `json:"tags"`
	EnforcedParams            Raw `json:"enforced_params"`
	ObjectPermission          Raw `json:"object_permission"`
	AllowedPassthroughRoutes  Raw `json:"allowed_passthrough_routes"`
	AllowedVectorStoreIndexes Raw `json:"allowed_vector_store_indexes"`
}

// KeyInfo is a key as /key/info shows it, without its hash.
type KeyInfo struct {
	KeyColumns
	SoftBudgetCooldown bool `json:"soft_budget_cooldown"`
	BudgetResetAt      Raw  `json:"budget_reset_at"`
	ModelSpend         Raw  `json:"model_spend"`
	ObjectPermissionID Raw  `json:"object_permission_id"`
	LastActive         Raw  `json:"last_active"`
	RotationCount      int  `json:"rotation_count"`
	AutoRotate         Raw  `json:"auto_rotate"`
	RotationInterval   Raw  `json:"rotation_interval"`
	LastRotationAt     Raw  `json:"last_rotation_at"`
	KeyRotationAt      Raw  `json:"key_rotation_at"`
}

// KeyRow is a key with its hash, as lists, updates and blocks show it.
type KeyRow struct {
	Token string `json:"token"`
	KeyInfo
}

// KeyUpdated answers /key/update. Key repeats which key was meant, as its hash.
type KeyUpdated struct {
	Key string `json:"key"`
	KeyRow
}

// KeyInfoAnswer answers /key/info. Key is the hash, whatever was asked with.
type KeyInfoAnswer struct {
	Key  string  `json:"key"`
	Info KeyInfo `json:"info"`
}

// KeysDeleted answers /key/delete with the keys that were named, as hashes.
type KeysDeleted struct {
	DeletedKeys []string `json:"deleted_keys"`
}

// KeyList answers /key/list. Keys holds hashes, or KeyRows with return_full_object.
type KeyList[T string | KeyRow] struct {
	Keys        []T `json:"keys"`
	TotalCount  int `json:"total_count"`
	CurrentPage int `json:"current_page"`
	TotalPages  int `json:"total_pages"`
}

func keyColumns(k *fsm.Key) KeyColumns {
	x := extras(k.Extra)
	return KeyColumns{
		KeyName: k.Name, KeyAlias: ptr(k.Alias), UserID: ptr(k.UserID), TeamID: ptr(k.TeamID),
		Models: list(k.Models), Metadata: metadata(k.Metadata, k.ModelRPM, k.ModelTPM),
		RPM: k.RPM, TPM: k.TPM, MaxParallel: k.MaxParallel, Blocked: ptr(k.Blocked), Expires: ptr(timestamp(k.Expires)),
		CreatedAt: timestamp(k.CreatedAt), CreatedBy: masterUser, UpdatedAt: timestamp(k.UpdatedAt), UpdatedBy: masterUser,
		Spend: x.get("spend", "0.0"), MaxBudget: x.get("max_budget", "null"), BudgetDuration: x.get("budget_duration", "null"),
		BudgetID: x.get("budget_id", "null"), ModelMaxBudget: x.get("model_max_budget", "{}"), Aliases: x.get("aliases", "{}"),
		Config: x.get("config", "{}"), Permissions: x.get("permissions", "{}"), RouterSettings: x.get("router_settings", "{}"),
		AllowedCacheControls: x.get("allowed_cache_controls", "[]"), AllowedRoutes: x.get("allowed_routes", "[]"),
		AccessGroupIDs: x.get("access_group_ids", "[]"), Policies: x.get("policies", "[]"), OrganizationID: x.get("organization_id", "null"),
		ProjectID: x.get("project_id", "null"), AgentID: x.get("agent_id", "null"), BudgetTable: Raw("null"),
	}
}

func keyCreated(k *fsm.Key, secret string) KeyCreated {
	x := extras(k.Extra)
	created := KeyCreated{Key: secret, Token: k.ID, TokenID: k.ID, KeyColumns: keyColumns(k), keyRequestColumns: keyRequestColumns{
		// Shown in metadata and as expires, as LiteLLM does.
		Duration: Raw("null"), ModelRPMLimit: Raw("null"), ModelTPMLimit: Raw("null"),
		RPMLimitType: x.get("rpm_limit_type", "null"), TPMLimitType: x.get("tpm_limit_type", "null"),
		Guardrails: x.get("guardrails", "null"), Prompts: x.get("prompts", "null"), Tags: x.get("tags", "null"),
		EnforcedParams: x.get("enforced_params", "null"), ObjectPermission: x.get("object_permission", "null"),
		AllowedPassthroughRoutes: x.get("allowed_passthrough_routes", "null"), AllowedVectorStoreIndexes: x.get("allowed_vector_store_indexes", "null"),
	}}
	created.Policies = x.get("policies", "null")
	return created
}

func keyInfo(k *fsm.Key) KeyInfo {
	x := extras(k.Extra)
	return KeyInfo{KeyColumns: keyColumns(k), BudgetResetAt: Raw("null"), ModelSpend: Raw("{}"), ObjectPermissionID: Raw("null"),
		LastActive: Raw("null"), AutoRotate: x.get("auto_rotate", "false"), RotationInterval: x.get("rotation_interval", "null"),
		LastRotationAt: Raw("null"), KeyRotationAt: Raw("null")}
}

func keyRow(k *fsm.Key) KeyRow { return KeyRow{Token: k.ID, KeyInfo: keyInfo(k)} }

// extras reads members that are kept as they came.
type extras map[string]json.RawMessage

func (x extras) get(name, absent string) Raw {
	if raw, ok := x[name]; ok && string(raw) != "null" {
		return raw
	}
	return Raw(absent)
}

// text returns a member that is a string, "" for anything else.
func (x extras) text(name string) string {
	var s string
	if json.Unmarshal(x.get(name, `""`), &s) != nil {
		return ""
	}
	return s
}

// metadata shows the per-model limits where LiteLLM shows them.
func metadata(m map[string]any, rpm, tpm map[string]limiter.Limit) map[string]any {
	shown := make(map[string]any, len(m)+2)
	maps.Copy(shown, m)
	if len(rpm) > 0 {
		shown["model_rpm_limit"] = rpm
	}
	if len(tpm) > 0 {
		shown["model_tpm_limit"] = tpm
	}
	return shown
}

// timestamp writes a moment as LiteLLM does, "" for none.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// ptr returns nil for a zero value.
func ptr[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
