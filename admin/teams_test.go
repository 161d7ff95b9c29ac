package admin_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const emptyTeam = `{"team_alias":null,"organization_id":null,"admins":[],"members":[],
 "members_with_roles":[{"user_id":"default_user_id","user_email":null,"role":"admin"}],"team_member_permissions":null,
 "metadata":{},"tpm_limit":null,"rpm_limit":null,"max_budget":null,"soft_budget":null,"budget_duration":null,"models":[],
 "blocked":false,"router_settings":null,"access_group_ids":null,"spend":0.0,"max_parallel_requests":null,
 "budget_reset_at":null,"model_id":null,"litellm_model_table":null,"object_permission":null,"object_permission_id":null}`

func TestTeamsShowAllMembers(t *testing.T) {
	r := newRig(t)
	got := r.ok("POST", "/team/new", `{}`)
	id, _ := got["team_id"].(string)
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("team_id %q", id)
	}
	same(t, got, emptyTeam, map[string]any{"team_id": id, "created_at": got["created_at"], "updated_at": got["updated_at"]})
	got = r.ok("POST", "/team/new", `{"team_id":"t1","team_alias":"search","rpm_limit":99,"max_budget":0.1,"models":["m"],
		"metadata":{"priority":"prod"},"model_rpm_limit":{"m":3},"members_with_roles":[{"role":"user","user_id":"u"}],"unknown":1}`)
	same(t, got, emptyTeam, map[string]any{"team_id": "t1", "team_alias": "search", "rpm_limit": 99.0, "max_budget": 0.1, "models": []any{"m"},
		"metadata":           map[string]any{"priority": "prod", "model_rpm_limit": map[string]any{"m": 3.0}},
		"members_with_roles": []any{map[string]any{"role": "user", "user_id": "u"}}, "created_at": got["created_at"], "updated_at": got["updated_at"]})
	if team, ok := r.state.View().Team("t1"); !ok || team.Priority() != "prod" || team.ModelRPM["m"].String() != "3" {
		t.Errorf("stored %+v", team)
	}
}

func TestTeamInfoShowsItsKeys(t *testing.T) {
	r := newRig(t)
	r.ok("POST", "/team/new", `{"team_id":"t1"}`)
	secret, _ := r.generate(`{"team_id":"t1"}`)
	r.generate(`{}`)
	got := r.ok("GET", "/team/info?team_id=t1", "")
	keys := got["keys"].([]any)
	if len(keys) != 1 || keys[0].(map[string]any)["token"] != hash(secret) || !reflect.DeepEqual(got["team_memberships"], []any{}) {
		t.Errorf("%v", got)
	}
	info := got["team_info"].(map[string]any)
	same(t, info, emptyTeam, map[string]any{"team_id": "t1", "created_at": info["created_at"], "updated_at": info["updated_at"], "team_member_budget_table": nil})
	if p := r.raw("GET", "/team/info?team_id=t1", secret, ""); p.status != 200 {
		t.Errorf("a key of the team: %d %s", p.status, p.body)
	}
	r.ok("POST", "/team/new", `{"team_id":"t2"}`)
	if p := r.raw("GET", "/team/info?team_id=t2", secret, ""); p.status != 403 {
		t.Errorf("a key of another team: %d %s", p.status, p.body)
	}
	p := r.send("GET", "/team/info?team_id=none", "")
	if message, kind, _, _ := p.errorOf(t); p.status != 404 || kind != "auth_error" || message != "Team not found, passed team id: none." {
		t.Errorf("%d %s", p.status, p.body)
	}
	if p := r.send("GET", "/team/info", ""); p.status != 422 {
		t.Errorf("%d %s", p.status, p.body)
	}
}

func TestTeamsAreListedByAlias(t *testing.T) {
	r := newRig(t)
	for _, body := range []string{`{"team_alias":"b","team_id":"1"}`, `{"team_alias":"a","team_id":"2"}`, `{"team_id":"3"}`} {
		r.ok("POST", "/team/new", body)
	}
	r.generate(`{"team_id":"1"}`)
	p := r.send("GET", "/team/list", "")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(p.body), &rows); err != nil || len(rows) != 3 {
		t.Fatalf("%s: %v", p.body, err)
	}
	if rows[0]["team_id"] != "3" || rows[1]["team_id"] != "2" || rows[2]["team_id"] != "1" || len(rows[2]["keys"].([]any)) != 1 || len(rows[1]["keys"].([]any)) != 0 {
		t.Errorf("%s", p.body)
	}
	r.ok("POST", "/team/update", `{"team_id":"3","organization_id":"o","members_with_roles":[{"role":"user","user_id":"u"}]}`)
	for query, want := range map[string]string{"organization_id=o": "3", "user_id=u": "3", "user_id=default_user_id&organization_id=o": "", "user_id=none": ""} {
		p := r.send("GET", "/team/list?"+query, "")
		if got := strings.Count(p.body, `"team_memberships"`); got != len(want) || want != "" && !strings.Contains(p.body, `"team_id":"3"`) {
			t.Errorf("%s: %s", query, p.body)
		}
	}
	if p := newRig(t).send("GET", "/team/list", ""); p.body != "[]\n" {
		t.Errorf("no teams: %q", p.body)
	}
}

func TestTeamUpdateBlockDelete(t *testing.T) {
	r := newRig(t)
	r.ok("POST", "/team/new", `{"team_id":"t1","rpm_limit":5,"team_alias":"x"}`)
	r.ok("POST", "/team/new", `{"team_id":"t2"}`)
	secret, _ := r.generate(`{"team_id":"t1"}`)
	got := r.ok("POST", "/team/update", `{"team_id":"t1","rpm_limit":null,"tpm_limit":0}`)
	data := got["data"].(map[string]any)
	if got["team_id"] != "t1" || data["rpm_limit"] != nil || data["tpm_limit"] != 0.0 || data["team_alias"] != "x" {
		t.Errorf("%v", got)
	}
	if got := r.ok("POST", "/team/block", `{"team_id":"t1"}`); got["blocked"] != true {
		t.Errorf("%v", got)
	}
	if got := r.ok("POST", "/team/unblock", `{"team_id":"t1"}`); got["blocked"] != false {
		t.Errorf("%v", got)
	}
	if p := r.send("POST", "/team/delete", `{"team_ids":["t1","none"]}`); p.status != 404 || r.state.View().TeamCount() != 2 {
		t.Errorf("one unknown: %d %s", p.status, p.body)
	}
	if got := r.ok("POST", "/team/delete", `{"team_ids":["t1"]}`); !reflect.DeepEqual(got["deleted_teams"], []any{"t1"}) {
		t.Errorf("%v", got)
	}
	if _, ok := r.state.View().Key(hash(secret)); ok {
		t.Error("the team's key outlived it")
	}
}

func TestTeamErrorsCarryBothForms(t *testing.T) {
	r := newRig(t)
	r.ok("POST", "/team/new", `{"team_id":"t1"}`)
	for _, tt := range []struct {
		path, body, message string
		status              int
	}{
		{"/team/new", `{"team_id":"t1"}`, "Team id = t1 already exists. Please use a different team id.", 409},
		{"/team/new", `{"rpm_limit":-1}`, "", 400},
		{"/team/new", `{"team_id":"a b"}`, "", 400},
		{"/team/update", `{"team_id":"x"}`, "Team not found, passed team_id=x", 404},
		{"/team/block", `{"team_id":"x"}`, "Team not found, passed team_id=x", 404},
		{"/team/unblock", `{"team_id":"x"}`, "Team not found, passed team_id=x", 404},
		{"/team/delete", `{"team_ids":["x"]}`, "Team not found, passed team_id=x", 404},
	} {
		p := r.send("POST", tt.path, tt.body)
		message, _, _, _ := p.errorOf(t)
		detail, _ := p.json(t)["detail"].(map[string]any)
		if p.status != tt.status || detail["error"] != message || tt.message != "" && message != tt.message {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, p.status, p.body)
		}
	}
	for path, body := range map[string]string{"/team/new": `{"rpm_limit":"x"}`, "/team/update": `{}`, "/team/delete": `{}`, "/team/block": `{}`} {
		p := r.send("POST", path, body)
		if _, isList := p.json(t)["detail"].([]any); p.status != 422 || !isList {
			t.Errorf("%s %s: %d %s", path, body, p.status, p.body)
		}
	}
}
