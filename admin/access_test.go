package admin_test

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/admin"
)

// The management routes with a body that would work.
var managed = map[string]string{
	"POST /key/generate": `{}`, "POST /key/update": `{"key":"sk-x-123456","rpm_limit":1}`, "POST /key/delete": `{"keys":["sk-x-123456"]}`,
	"POST /key/block": `{"key":"sk-x-123456"}`, "POST /key/unblock": `{"key":"sk-x-123456"}`, "POST /key/regenerate": `{"key":"sk-x-123456"}`,
	"POST /key/sk-x-123456/regenerate": `{}`, "GET /key/list": "",
	"POST /team/new": `{}`, "POST /team/update": `{"team_id":"t"}`, "POST /team/delete": `{"team_ids":["t"]}`, "POST /team/block": `{"team_id":"t"}`,
	"POST /team/unblock": `{"team_id":"t"}`, "GET /team/list": "",
	"GET /priority/list": "", "POST /priority/set": `{"priority":"p","share":0.1}`, "POST /priority/unset": `{"priority":"prod"}`,
	"GET /config": "", "POST /config": `{"config":{"models":[]}}`, "GET /config/history": "", "POST /config/rollback": `{"version":1}`,
	"GET /limits": "", "GET /limits/explain": "", "GET /model/info": "", "GET /v1/model/info": "", "GET /metrics": "",
	"GET /cluster/status": "", "POST /cluster/remove": `{"node":"n2"}`, "POST /cluster/transfer": `{}`,
	"GET /cluster/backup": "", "POST /cluster/restore": `x`,
}

func TestADataKeyOpensNoManagementRoute(t *testing.T) {
	r := newRig(t)
	secret, _ := r.generate(`{"user_id":"a-user-with-a-long-name"}`)
	version := r.state.View().ConfigVersion()
	for _, route := range slices.Sorted(maps.Keys(managed)) {
		method, path, _ := strings.Cut(route, " ")
		p := r.raw(method, path, secret, managed[route])
		message, kind, param, code := p.errorOf(t)
		if p.status != 401 || kind != "auth_error" || param != "None" || code != "401" ||
			!strings.HasPrefix(message, "Authentication Error, Only proxy admin can be used to generate, delete, update info for new keys/users/teams. Route=/") ||
			!strings.HasSuffix(message, " Your role=internal_user. Your user_id=a-us****me") || strings.Contains(message, "sk-x") {
			t.Errorf("%s: %d %s", route, p.status, p.body)
		}
		for name, key := range map[string]string{"no key": "", "unknown key": "sk-nobody-knows-me"} {
			p := r.raw(method, path, key, managed[route])
			if _, kind, _, _ := p.errorOf(t); p.status != 401 || kind != "auth_error" || strings.Contains(p.body, "nobody") {
				t.Errorf("%s with %s: %d %s", route, name, p.status, p.body)
			}
		}
		if p := r.raw(method, path, secret, `{"broken`, "Content-Type", "application/json"); p.status != 401 {
			t.Errorf("%s looks at the body first: %d", route, p.status)
		}
	}
	if r.state.View().KeyCount() != 1 || r.state.View().ConfigVersion() != version || len(r.nodes.calls) != 0 {
		t.Error("something was changed")
	}
}

func TestADataKeySeesItself(t *testing.T) {
	r := newRig(t)
	secret, _ := r.generate(`{"rpm_limit":3}`)
	other, _ := r.generate(`{}`)
	for _, query := range []string{"", "?key=" + secret, "?key=" + hash(secret)} {
		p := r.raw("GET", "/key/info"+query, secret, "")
		if p.status != 200 || p.json(t)["key"] != hash(secret) || p.json(t)["info"].(map[string]any)["rpm_limit"] != 3.0 {
			t.Errorf("%q: %d %s", query, p.status, p.body)
		}
	}
	for _, key := range []string{other, hash(other), "sk-no-such-key-1"} {
		p := r.raw("GET", "/key/info?key="+key, secret, "")
		if message, _, _, _ := p.errorOf(t); p.status != 403 || !strings.HasPrefix(message, "You are not allowed to access this key's info.") {
			t.Errorf("%d %s", p.status, p.body)
		}
	}
	p := r.raw("GET", "/team/info?team_id=", secret, "")
	if p.status != 422 {
		t.Errorf("no team: %d %s", p.status, p.body)
	}
	if p := r.raw("GET", "/team/info?team_id=t", secret, ""); p.status != 403 {
		t.Errorf("not its team: %d %s", p.status, p.body)
	}
}

func TestUnknownPathsAndMethodsAreJSON(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/key", "/key/", "/key/generate/", "/KEY/generate", "/key//regenerate", "/key/a/b/regenerate", "/team/member_add", "/v1/chat/completions", "/"} {
		if admin.Owns(path) {
			t.Errorf("%s is owned", path)
		}
		p := r.send("POST", path, `{}`)
		if _, kind, _, _ := p.errorOf(t); p.status != 404 || kind != "not_found_error" {
			t.Errorf("%s: %d %s", path, p.status, p.body)
		}
	}
	for route := range managed {
		method, path, _ := strings.Cut(route, " ")
		if !admin.Owns(path) {
			t.Errorf("%s is not owned", path)
		}
		p := r.send(http.MethodPatch, path, `{}`)
		if p.status != 405 || !strings.Contains(p.header.Get("Allow"), method) || p.json(t)["detail"] == nil {
			t.Errorf("PATCH %s: %d %v %s", path, p.status, p.header, p.body)
		}
	}
	if p := r.send("GET", "/key/generate", ""); p.status != 405 || p.header.Get("Allow") != "POST" {
		t.Errorf("%d %v", p.status, p.header)
	}
	if p := r.send("HEAD", "/limits", ""); p.status != 200 {
		t.Errorf("HEAD: %d", p.status)
	}
	if p := r.send("DELETE", "/config", ""); p.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow: %v", p.header)
	}
}

func TestRequestsOfOtherSitesAreRefused(t *testing.T) {
	r := newRig(t)
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}} {
		if p := r.send("POST", "/key/generate", `{}`, header...); p.status != 403 {
			t.Errorf("%v: %d %s", header, p.status, p.body)
		}
	}
	if r.state.View().KeyCount() != 0 {
		t.Error("a key was created")
	}
	r.generate(`{}`, "Origin", "http://example.com") // httptest's own host
}

func TestBodiesThatAreNotRead(t *testing.T) {
	r := newRig(t)
	if p := r.send("POST", "/key/generate", "x", "Content-Encoding", "gzip"); p.status != 415 {
		t.Errorf("gzip: %d %s", p.status, p.body)
	}
	p := r.send("POST", "/key/generate", strings.Repeat(" ", 5<<20))
	if p.status != 413 {
		t.Errorf("large: %d %s", p.status, p.body)
	}
}

func TestCallIDsAreTheCallersIfSane(t *testing.T) {
	r := newRig(t)
	if p := r.send("GET", "/limits", "", "X-Litellm-Call-Id", "my-id-1"); p.header.Get("X-Litellm-Call-Id") != "my-id-1" {
		t.Errorf("%v", p.header)
	}
	seen := map[string]bool{}
	for _, bad := range []string{"", "a b", strings.Repeat("x", 200), "ü"} {
		id := r.send("GET", "/limits", "", "X-Litellm-Call-Id", bad).header.Get("X-Litellm-Call-Id")
		if id == bad || len(id) != 36 || seen[id] {
			t.Errorf("%q: %q", bad, id)
		}
		seen[id] = true
	}
}

func TestReadsGoOnWithoutALeader(t *testing.T) {
	r := newRig(t)
	secret, _ := r.generate(`{}`)
	if p := r.send("GET", "/key/info?key="+secret, ""); p.header.Get("X-Sluice-Stale") != "" {
		t.Errorf("%v", p.header)
	}
	r.stale = errors.New("no leader")
	if p := r.send("GET", "/key/info?key="+secret, ""); p.status != 200 || p.header.Get("X-Sluice-Stale") != "true" {
		t.Errorf("%d %v", p.status, p.header)
	}
}

func TestEveryWriteLeavesAnAuditLineWithoutSecrets(t *testing.T) {
	r := newRig(t)
	secret, _ := r.generate(`{}`)
	r.send("POST", "/key/block", `{"key":"`+secret+`"}`)
	r.send("POST", "/key/"+r.secret("sk-not-there-0000")+"/regenerate", ``)
	log := r.logs.String()
	for _, want := range []string{
		"who=master route=/key/generate target=" + hash(secret)[:12] + " outcome=done",
		"route=/key/block target=" + hash(secret)[:12] + " outcome=done",
		"route=/key/{key}/regenerate target=" + hash("sk-not-there-0000")[:12] + " outcome=refused",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if strings.Contains(log, hash(secret)) {
		t.Error("whole hash in the log")
	}
}

func TestASecretInTheWrongPlaceIsNotRepeated(t *testing.T) {
	r := newRig(t)
	s := r.secret("sk-in-the-wrong-place-1")
	for path, body := range map[string]string{
		"/team/new": `{"team_id":"` + s + `","rpm_limit":-1}`, "/team/update": `{"team_id":"` + s + `"}`, "/team/delete": `{"team_ids":["` + s + `"]}`,
		"/team/block": `{"team_id":"` + s + `"}`, "/priority/unset": `{"priority":"` + s + `"}`, "/priority/set": `{"priority":"p","share":"` + s + `"}`,
		"/key/generate": `{"team_id":"` + s + `"}`, "/key/update": `{"key":"sk-x-123456","duration":"` + s + `"}`, "/key/delete": `{"key_aliases":["` + s + `"]}`,
		"/key/block": `{"key":["` + s + `"]}`, "/key/" + s + "/regenerate": `{"models":"` + s + `"}`, "/cluster/remove": `{"node":["` + s + `"]}`,
		"/key/unblock": `{"` + s + `":1,"` + s + `":1}`, "/config": `{"config":{"` + s + `":1}}`, "/config/rollback": `{"version":"` + s + `"}`,
	} {
		if p := r.send("POST", path, body); p.status < 400 {
			t.Errorf("%s: %d %s", path, p.status, p.body)
		}
	}
	for _, path := range []string{"/limits?model=", "/team/info?team_id=", "/key/info?key=", "/key/list?page="} {
		if p := r.send("GET", path+s, ""); p.status < 400 {
			t.Errorf("%s: %d %s", path, p.status, p.body)
		}
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	if _, err := admin.New(admin.Options{}); err == nil {
		t.Error("empty options were taken")
	}
}
