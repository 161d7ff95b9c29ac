package admin

import (
	"sluice/fsm"
	"sluice/limiter"
)

// TeamRow is a team as /team/new and /team/block show it.
type TeamRow struct {
	TeamID      string         `json:"team_id"`
	TeamAlias   *string        `json:"team_alias"`
	Models      []string       `json:"models"`   // empty: all
	Metadata    map[string]any `json:"metadata"` // holds model_rpm_limit and model_tpm_limit too
	RPM         limiter.Limit  `json:"rpm_limit"`
	TPM         limiter.Limit  `json:"tpm_limit"`
	MaxParallel limiter.Limit  `json:"max_parallel_requests"`
	Blocked     bool           `json:"blocked"`
	CreatedAt   string         `json:"created_at"`
	UpdatedAt   string         `json:"updated_at"`

	OrganizationID        Raw `json:"organization_id"`
	Admins                Raw `json:"admins"`
	Members               Raw `json:"members"`
	MembersWithRoles      Raw `json:"members_with_roles"`
	TeamMemberPermissions Raw `json:"team_member_permissions"`
	MaxBudget             Raw `json:"max_budget"`
	SoftBudget            Raw `json:"soft_budget"`
	BudgetDuration        Raw `json:"budget_duration"`
	BudgetResetAt         Raw `json:"budget_reset_at"`
	RouterSettings        Raw `json:"router_settings"`
	AccessGroupIDs        Raw `json:"access_group_ids"`
	Spend                 Raw `json:"spend"`
	ModelID               Raw `json:"model_id"`
	ModelTable            Raw `json:"litellm_model_table"`
	ObjectPermission      Raw `json:"object_permission"`
	ObjectPermissionID    Raw `json:"object_permission_id"`
}

// TeamUpdated answers /team/update.
type TeamUpdated struct {
	TeamID string  `json:"team_id"`
	Data   TeamRow `json:"data"`
}

// TeamsDeleted answers /team/delete.
type TeamsDeleted struct {
	DeletedTeams []string `json:"deleted_teams"`
}

// TeamInfo is a team as /team/info shows it.
type TeamInfo struct {
	TeamRow
	TeamMemberBudgetTable Raw `json:"team_member_budget_table"`
}

// TeamInfoAnswer answers /team/info.
type TeamInfoAnswer struct {
	TeamID          string   `json:"team_id"`
	TeamInfo        TeamInfo `json:"team_info"`
	Keys            []KeyRow `json:"keys"`
	TeamMemberships []Raw    `json:"team_memberships"` // always empty: there are no users yet
}

// TeamListRow is one entry of /team/list.
type TeamListRow struct {
	TeamRow
	Keys            []KeyRow `json:"keys"`
	TeamMemberships []Raw    `json:"team_memberships"`
}

// creatorMember stands for the master key, which creates all teams.
const creatorMember = `[{"user_id":"` + masterUser + `","user_email":null,"role":"admin"}]`

func teamRow(t *fsm.Team) TeamRow {
	x := extras(t.Extra)
	return TeamRow{
		TeamID: t.ID, TeamAlias: ptr(t.Alias), Models: list(t.Models), Metadata: metadata(t.Metadata, t.ModelRPM, t.ModelTPM),
		RPM: t.RPM, TPM: t.TPM, MaxParallel: t.MaxParallel, Blocked: t.Blocked,
		CreatedAt: timestamp(t.CreatedAt), UpdatedAt: timestamp(t.UpdatedAt),
		OrganizationID: x.get("organization_id", "null"), Admins: x.get("admins", "[]"), Members: x.get("members", "[]"),
		MembersWithRoles: x.get("members_with_roles", creatorMember), TeamMemberPermissions: x.get("team_member_permissions", "null"),
		MaxBudget: x.get("max_budget", "null"), SoftBudget: x.get("soft_budget", "null"), BudgetDuration: x.get("budget_duration", "null"),
		BudgetResetAt: Raw("null"), RouterSettings: x.get("router_settings", "null"), AccessGroupIDs: x.get("access_group_ids", "null"),
		Spend: x.get("spend", "0.0"), ModelID: Raw("null"), ModelTable: Raw("null"),
		ObjectPermission: x.get("object_permission", "null"), ObjectPermissionID: Raw("null"),
	}
}
