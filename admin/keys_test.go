package admin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// The members of a creation's answer, with what they hold when the body is {}.
const emptyCreation = `{"key_alias":null,"duration":null,"models":[],"spend":0.0,"max_budget":null,"user_id":null,
 "team_id":null,"agent_id":null,"max_parallel_requests":null,"metadata":{},
 "tpm_limit":null,"rpm_limit":null,"budget_duration":null,"allowed_cache_controls":[],"config":{},"permissions":{},
 "model_max_budget":{},"model_rpm_limit":null,"model_tpm_limit":null,"guardrails":null,"policies":null,"prompts":null,
 "blocked":null,"aliases":{},"object_permission":null,"budget_id":null,"tags":null,
 "enforced_params":null,"allowed_routes":[],"allowed_passthrough_routes":null,"allowed_vector_store_indexes":null,
 "rpm_limit_type":null,"tpm_limit_type":null,"router_settings":{},"access_group_ids":[],
 "expires":null,"organization_id":null,"project_id":null,"litellm_budget_table":null,"created_by":"default_user_id","updated_by":"default_user_id",
 "created_at":"2026-10-02T12:00:00.123456Z","updated_at":"2026-10-02T12:00:00.123456Z"}`

// The members of a key's info.
const emptyInfo = `{"key_alias":null,"soft_budget_cooldown":false,"spend":0.0,
 "expires":null,"models":[],"aliases":{},"config":{},"router_settings":{},"user_id":null,"team_id":null,
 "agent_id":null,"project_id":null,"permissions":{},"max_parallel_requests":null,"metadata":{},"blocked":null,
 "tpm_limit":null,"rpm_limit":null,"max_budget":null,"budget_duration":null,"budget_reset_at":null,
 "allowed_cache_controls":[],"allowed_routes":[],"policies":[],"access_group_ids":[],"model_spend":{},"model_max_budget":{},
 "budget_id":null,"organization_id":null,"object_permission_id":null,"created_at":"2026-10-02T12:00:00.123456Z","created_by":"default_user_id",
 "updated_at":"2026-10-02T12:00:00.123456Z",
 "updated_by":"default_user_id","last_active":null,"rotation_count":0,"auto_rotate":false,"rotation_interval":null,"last_rotation_at":null,
 "key_rotation_at":null,"litellm_budget_table":null}`

// same compares an object with the JSON it must equal, plus more members.
func same(t *testing.T, got map[string]any, want string, more map[string]any) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(want), &m); err != nil {
		t.Fatal(err)
	}
	maps.Copy(m, more)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if v, ok := got[name]; !ok || !reflect.DeepEqual(v, m[name]) {
			t.Errorf("%s = %#v (present %v), want %#v", name, v, ok, m[name])
		}
	}
	for name := range got {
		if _, ok := m[name]; !ok {
			t.Errorf("%s = %#v is not part of the shape", name, got[name])
		}
	}
}

func TestAnEmptyBodyCreatesAKeyWithAllMembers(t *testing.T) {
	for _, body := range []string{`{}`, ``, ` `, `{"send_invite_email":true,"no_such_field":{"a":1},"Key_Alias":"case counts"}`} {
		r := newRig(t)
		secret, got := r.generate(body)
		if !regexp.MustCompile(`^sk-[A-Za-z0-9_-]{22}$`).MatchString(secret) {
			t.Errorf("secret %q", secret)
		}
		id := hash(secret)
		same(t, got, emptyCreation, map[string]any{"key": secret, "key_name": "sk-..." + secret[len(secret)-4:], "token": id, "token_id": id})
		info := r.ok("GET", "/key/info?key="+secret, "")
		same(t, info["info"].(map[string]any), emptyInfo, map[string]any{"key_name": got["key_name"]})
		if info["key"] != id {
			t.Errorf("info of %v", info["key"])
		}
	}
}

func TestWhatIsGivenIsKeptAndShown(t *testing.T) {
	r := newRig(t)
	r.ok("POST", "/team/new", `{"team_id":"t1"}`)
	secret, got := r.generate(`{"key_alias":"  alice-laptop ","duration":"30d","models":["my-fake-model"],"user_id":"alice","team_id":"t1",
		"metadata":{"owner":"alice","priority":"prod","big":12345678901234567890,"model_rpm_limit":{"fast":9}},
		"rpm_limit":3.0,"tpm_limit":1e3,"max_parallel_requests":0,"model_tpm_limit":{"my-fake-model":7,"gone":null},
		"max_budget":0.1,"budget_duration":"30d","tags":["a"],"aliases":{"x":"y"},"soft_budget":"","blocked":true}`)
	more := map[string]any{"key": secret, "key_name": got["key_name"], "token": hash(secret), "token_id": hash(secret),
		"key_alias": "alice-laptop", "expires": "2026-11-01T12:00:00.123456Z", "models": []any{"my-fake-model"}, "user_id": "alice", "team_id": "t1",
		"metadata": map[string]any{"owner": "alice", "priority": "prod", "big": 12345678901234567890.0,
			"model_rpm_limit": map[string]any{"fast": 9.0}, "model_tpm_limit": map[string]any{"my-fake-model": 7.0}},
		"rpm_limit": 3.0, "tpm_limit": 1000.0, "max_parallel_requests": 0.0, "max_budget": 0.1, "budget_duration": "30d",
		"tags": []any{"a"}, "aliases": map[string]any{"x": "y"}, "blocked": true}
	same(t, got, emptyCreation, more)
	k, ok := r.state.View().Key(hash(secret))
	if !ok || k.Priority() != "prod" || k.ModelRPM["fast"].String() != "9" || k.ModelTPM["my-fake-model"].String() != "7" || len(k.ModelTPM) != 1 {
		t.Errorf("stored %+v", k)
	}
	if p := r.send("GET", "/key/info?key="+hash(secret), ""); !strings.Contains(p.body, "12345678901234567890") {
		t.Errorf("metadata lost digits: %s", p.body)
	}
}

func TestBadKeyBodiesAreRefusedByField(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name, body, param string
		status            int
	}{
		{"not JSON", `{"key_alias":`, "", 400},
		{"a list", `[]`, "", 400},
		{"two objects", `{}{}`, "", 400},
		{"member twice", `{"rpm_limit":1,"rpm_limit":2}`, "rpm_limit", 400},
		{"negative limit", `{"rpm_limit":-1}`, "rpm_limit", 400},
		{"NaN", `{"rpm_limit":NaN}`, "", 400},
		{"fraction", `{"tpm_limit":1.5}`, "tpm_limit", 422},
		{"limit as string", `{"max_parallel_requests":"10"}`, "max_parallel_requests", 422},
		{"limit as bool", `{"rpm_limit":true}`, "rpm_limit", 422},
		{"huge limit", `{"rpm_limit":1e300}`, "rpm_limit", 400},
		{"unreadable limit", `{"rpm_limit":1e999}`, "rpm_limit", 400},
		{"negative limit of a model", `{"model_rpm_limit":{"m":-1}}`, "model_rpm_limit.m", 400},
		{"limit of a model in metadata", `{"metadata":{"model_tpm_limit":{"m":0.5}}}`, "model_tpm_limit.m", 422},
		{"limits of models as list", `{"model_rpm_limit":[1]}`, "model_rpm_limit", 422},
		{"duration", `{"duration":"1y"}`, "duration", 400},
		{"duration zero", `{"duration":"0s"}`, "duration", 400},
		{"duration as number", `{"duration":30}`, "duration", 422},
		{"models as string", `{"models":"gpt"}`, "models", 422},
		{"models with null", `{"models":[null]}`, "models", 422},
		{"models with number", `{"models":[1]}`, "models", 422},
		{"metadata as string", `{"metadata":"x"}`, "metadata", 422},
		{"priority as number", `{"metadata":{"priority":1}}`, "metadata.priority", 400},
		{"blocked as string", `{"blocked":"yes"}`, "blocked", 422},
		{"budget", `{"max_budget":-1.0}`, "max_budget", 400},
		{"budget as text", `{"max_budget":"ten"}`, "max_budget", 422},
		{"alias as number", `{"key_alias":5}`, "key_alias", 422},
		{"long alias", `{"key_alias":"` + strings.Repeat("x", 10_000) + `"}`, "key_alias", 400},
		{"invisible alias", `{"key_alias":"a\u200bb"}`, "key_alias", 400},
		{"unknown team", `{"team_id":"no-such-team"}`, "team_id", 400},
		{"chosen key without prefix", `{"key":"abcd-0123456789-0123456789-wxyz"}`, "key", 400},
		{"chosen key too short", `{"key":"sk-1"}`, "key", 400},
		{"chosen key with blank", `{"key":"sk-abcd efgh"}`, "key", 400},
		{"chosen key is the master key", `{"key":"` + masterKey + `"}`, "key", 400},
		{"chosen key as number", `{"key":5}`, "key", 422},
		{"body too large", `{"metadata":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`, "", 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := r.send("POST", "/key/generate", tt.body)
			message, _, param, code := p.errorOf(t)
			if p.status != tt.status || code != fmt.Sprint(tt.status) {
				t.Fatalf("%d %s", p.status, p.body)
			}
			if got, _ := param.(string); got != tt.param {
				t.Errorf("param %v, want %q", param, tt.param)
			}
			if len(message) > 500 {
				t.Errorf("message of %d bytes", len(message))
			}
			if _, hasDetail := p.json(t)["detail"].([]any); hasDetail != (tt.status == 422) {
				t.Errorf("detail: %s", p.body)
			}
		})
	}
	if n := r.state.View().KeyCount(); n != 0 {
		t.Errorf("%d keys were created", n)
	}
}

func TestWrongTypesAreNamedTogetherInFastAPIsForm(t *testing.T) {
	r := newRig(t)
	p := r.send("POST", "/key/generate", `{"rpm_limit":"sk-in-the-wrong-place","tpm_limit":2.5}`)
	want := `[{"type":"int_type","loc":["body","rpm_limit"],"msg":"Input should be a valid integer","input":null},{"type":"int_from_float","loc":["body","tpm_limit"],"msg":"Input should be a valid integer, got a number with a fractional part","input":2.5}]`
	if got, _ := json.Marshal(p.json(t)["detail"]); !sameJSON(t, string(got), want) {
		t.Errorf("detail %s", got)
	}
	p = r.send("POST", "/key/delete", `{}`)
	if want := `[{"type":"missing","loc":["body","keys"],"msg":"Field required","input":null}]`; p.status != 422 || !strings.Contains(p.body, want) {
		t.Errorf("%d %s", p.status, p.body)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

func TestAChosenKeyIsKeptAndCanBeTakenOnce(t *testing.T) {
	r := newRig(t)
	secret, got := r.generate(`{"key":"sk-my-own-secret"}`)
	if secret != "sk-my-own-secret" || got["key_name"] != "sk-...cret" || got["token"] != hash(secret) {
		t.Errorf("%v", got)
	}
	if p := r.send("POST", "/key/generate", `{"key":"sk-my-own-secret"}`); p.status != 409 {
		t.Errorf("second: %d %s", p.status, p.body)
	}
	if _, got := r.generate(`{"key":"sk-1234"}`); got["key_name"] != "sk-..." {
		t.Errorf("name of a short key gives it away: %v", got["key_name"])
	}
}

func TestAliasesAreUnique(t *testing.T) {
	r := newRig(t)
	r.generate(`{"key_alias":"caf\u00e9"}`)
	for _, alias := range []string{`"caf\u00e9"`, `" caf\u00e9 "`, `"cafe\u0301"`} {
		p := r.send("POST", "/key/generate", `{"key_alias":`+alias+`}`)
		if _, _, param, _ := p.errorOf(t); p.status != 409 || param != "key_alias" {
			t.Errorf("%s: %d %s", alias, p.status, p.body)
		}
	}
	r.generate(`{"key_alias":"Caf\u00e9"}`)
}

func TestUpdateChangesOnlyWhatIsPresent(t *testing.T) {
	r := newRig(t)
	secret, before := r.generate(`{"key_alias":"a","rpm_limit":5,"tpm_limit":50,"duration":"1w","metadata":{"priority":"prod","x":1},"model_rpm_limit":{"m":2},"max_budget":3,"models":["m"]}`)
	for _, tt := range []struct {
		name, body string
		want       map[string]any
	}{
		{"one limit", `"rpm_limit":7`, map[string]any{"rpm_limit": 7.0}},
		{"a limit back to none", `"rpm_limit":null`, map[string]any{"rpm_limit": nil}},
		{"expiry counts from now", `"duration":"1mo"`, map[string]any{"expires": "2026-11-02T12:00:00.123456Z"}},
		{"expiry back to never", `"duration":null`, map[string]any{"expires": nil}},
		{"never, the old way", `"duration":"-1"`, map[string]any{"expires": nil}},
		{"models of a model stay without metadata", `"models":[]`, map[string]any{"models": []any{}}},
		{"kept members", `"max_budget":null,"tags":["t"]`, map[string]any{"max_budget": nil}},
		{"alias", `"key_alias":"b"`, map[string]any{"key_alias": "b"}},
		{"metadata as a whole", `"metadata":{"y":2}`, map[string]any{"metadata": map[string]any{"y": 2.0}}},
		{"metadata cleared", `"metadata":null`, map[string]any{"metadata": map[string]any{}}},
		{"metadata with limits", `"metadata":{"model_rpm_limit":{"n":4}}`, map[string]any{"metadata": map[string]any{"model_rpm_limit": map[string]any{"n": 4.0}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			current := r.ok("GET", "/key/info?key="+secret, "")["info"].(map[string]any)
			got := r.ok("POST", "/key/update", `{"key":"`+secret+`",`+tt.body+`}`)
			want := maps.Clone(current)
			maps.Copy(want, tt.want)
			maps.Copy(want, map[string]any{"key": hash(secret), "token": hash(secret), "updated_at": got["updated_at"]})
			same(t, got, `{}`, want)
		})
	}
	if after := r.ok("GET", "/key/info?key="+secret, "")["info"].(map[string]any); after["created_at"] != before["created_at"] {
		t.Errorf("created_at moved to %v", after["created_at"])
	}
	if p := r.send("POST", "/key/update", `{"key":"sk-no-such-key-here","rpm_limit":1}`); p.status != 404 {
		t.Errorf("unknown: %d %s", p.status, p.body)
	}
	if p := r.send("POST", "/key/update", `{"rpm_limit":1}`); p.status != 422 {
		t.Errorf("no key: %d %s", p.status, p.body)
	}
	if p := r.send("POST", "/key/update", `{"key":"`+secret+`","team_id":"gone"}`); p.status != 400 {
		t.Errorf("unknown team: %d %s", p.status, p.body)
	}
}

func TestBlockAndUnblockShowTheWholeRow(t *testing.T) {
	r := newRig(t)
	secret, _ := r.generate(`{"key_alias":"a"}`)
	for path, want := range map[string]bool{"/key/block": true, "/key/unblock": false} {
		got := r.ok("POST", path, `{"key":"`+secret+`"}`)
		if got["blocked"] != want || got["token"] != hash(secret) || got["key_alias"] != "a" {
			t.Errorf("%s: %v", path, got)
		}
		for body, status := range map[string]int{`{"key":"` + hash(secret) + `"}`: 200, `{"key":"` + strings.ToUpper(hash(secret)) + `"}`: 200,
			`{"key":"nonsense"}`: 400, `{"key":"sk-unknown-key-123"}`: 404, `{}`: 422, `{"key":1}`: 422} {
			if p := r.send("POST", path, body); p.status != status {
				t.Errorf("%s %s: %d %s", path, body, p.status, p.body)
			}
		}
	}
}

func TestDeleteTakesKeysHashesAndAliases(t *testing.T) {
	r := newRig(t)
	a, _ := r.generate(`{"key_alias":"a"}`)
	b, _ := r.generate(`{"key_alias":"b"}`)
	c, _ := r.generate(`{"key_alias":"c"}`)
	got := r.ok("POST", "/key/delete", `{"keys":["`+a+`","`+hash(b)+`","sk-unknown-key-123"]}`)
	if want := []any{hash(a), hash(b), hash("sk-unknown-key-123")}; !reflect.DeepEqual(got["deleted_keys"], want) {
		t.Errorf("deleted %v", got)
	}
	if got := r.ok("POST", "/key/delete", `{"key_aliases":["c"]}`); !reflect.DeepEqual(got["deleted_keys"], []any{"c"}) {
		t.Errorf("deleted %v", got)
	}
	for _, secret := range []string{a, b, c} {
		if p := r.send("GET", "/key/info?key="+secret, ""); p.status != 404 {
			t.Errorf("still there: %s", p.body)
		}
	}
	for body, status := range map[string]int{`{"keys":["` + a + `"]}`: 404, `{"key_aliases":["c"]}`: 404, `{"keys":[]}`: 422, `{"keys":"x"}`: 422} {
		p := r.send("POST", "/key/delete", body)
		if message, _, _, _ := p.errorOf(t); p.status != status || status == 404 && message != "No keys found" {
			t.Errorf("%s: %d %s", body, p.status, p.body)
		}
	}
}

func TestRegenerateKeepsAllButTheSecret(t *testing.T) {
	r := newRig(t)
	old, before := r.generate(`{"key_alias":"a","rpm_limit":5,"metadata":{"priority":"dev"}}`)
	renew := func(path, body string) string {
		t.Helper()
		p := r.raw("POST", path, masterKey, body)
		if p.status != 200 {
			t.Fatalf("%s %s: %d %s", path, body, p.status, p.body)
		}
		m := p.json(t)
		secret, _ := m["key"].(string)
		if m["token_id"] != hash(secret) || m["key_alias"] != "a" || m["created_at"] != before["created_at"] {
			t.Errorf("%v", m)
		}
		same(t, m, `{}`, m)
		return r.secret(secret)
	}
	second := renew("/key/regenerate", `{"key":"`+old+`"}`)
	third := renew("/key/"+second+"/regenerate", ``)
	fourth := renew("/key/"+hash(third)+"/regenerate", `{"new_key":"sk-chosen-anew-1","rpm_limit":9,"grace_period":"0s"}`)
	if fourth != "sk-chosen-anew-1" {
		t.Errorf("new key %s", fourth)
	}
	if info := r.ok("GET", "/key/info?key="+fourth, "")["info"].(map[string]any); info["rpm_limit"] != 9.0 {
		t.Errorf("%v", info)
	}
	for _, gone := range []string{old, second, third} {
		if p := r.send("GET", "/key/info?key="+gone, ""); p.status != 404 {
			t.Errorf("old secret still works: %s", p.body)
		}
	}
	for _, tt := range []struct {
		path, body string
		status     int
	}{
		{"/key/regenerate", `{}`, 400}, {"/key/" + old + "/regenerate", `{}`, 404}, {"/key/regenerate", `{"key":"` + fourth + `","new_key":"abc"}`, 400},
		{"/key/regenerate", `{"key":"` + fourth + `","grace_period":"24h"}`, 400}, {"/key/regenerate", `{"key":"` + fourth + `","new_master_key":"x"}`, 400},
	} {
		if p := r.send("POST", tt.path, tt.body); p.status != tt.status {
			t.Errorf("%s: %d %s", tt.body, p.status, p.body)
		}
	}
}

func TestListPagesThroughAllKeysOnce(t *testing.T) {
	r := newRig(t)
	r.ok("POST", "/team/new", `{"team_id":"t1"}`)
	want := map[string]bool{}
	for i := range 25 {
		body := `{}`
		if i%5 == 0 {
			body = `{"team_id":"t1","user_id":"u"}`
		}
		secret, _ := r.generate(body)
		want[hash(secret)] = true
	}
	seen := map[string]bool{}
	for page := 1; page <= 3; page++ {
		got := r.ok("GET", fmt.Sprintf("/key/list?page=%d", page), "")
		if got["total_count"] != 25.0 || got["total_pages"] != 3.0 || got["current_page"] != float64(page) {
			t.Errorf("%v", got)
		}
		for _, k := range got["keys"].([]any) {
			if id, _ := k.(string); !want[id] || seen[id] {
				t.Errorf("page %d: %v", page, k)
			} else {
				seen[id] = true
			}
		}
	}
	if len(seen) != 25 {
		t.Errorf("%d keys", len(seen))
	}
	full := r.ok("GET", "/key/list?return_full_object=true&team_id=t1&size=100&sort_by=token&sort_order=asc", "")
	rows := full["keys"].([]any)
	if len(rows) != 5 || full["total_count"] != 5.0 {
		t.Fatalf("%v", full)
	}
	row := rows[0].(map[string]any)
	same(t, row, emptyInfo, map[string]any{"token": row["token"], "key_name": row["key_name"], "team_id": "t1", "user_id": "u"})
	for query, status := range map[string]int{"page=0": 422, "size=101": 422, "size=0": 422, "page=x": 422, "sort_by=spend_x": 400, "sort_order=up": 400,
		"page=2147483648": 200, "page=99999999999999999999": 422, "page=1&size=100&key_alias=none": 200, "%zz": 400, "status=deleted": 400} {
		if p := r.send("GET", "/key/list?"+query, ""); p.status != status {
			t.Errorf("%s: %d %s", query, p.status, p.body)
		}
	}
}
