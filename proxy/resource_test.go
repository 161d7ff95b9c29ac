package proxy

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"sluice/fsm"
	"sluice/limiter"
)

// account is an upstream that keeps some responses.
func account(t *testing.T, ids ...string) *rawUpstream {
	var u *rawUpstream
	u = newRaw(t, func(c net.Conn) {
		all := u.requests()
		got := all[len(all)-1]
		for _, id := range ids {
			if strings.Contains(got.uri, "/"+id) {
				say(c, jsonAnswer("200 OK", `{"id":"`+id+`","usage":{"input_tokens":5,"output_tokens":5}}`))
				return
			}
		}
		if strings.HasSuffix(got.uri, "/responses") {
			say(c, jsonAnswer("200 OK", `{"id":"`+ids[0]+`","usage":{"input_tokens":5,"output_tokens":5}}`))
			return
		}
		say(c, jsonAnswer("404 Not Found", `{"error":{"message":"no such response"}}`))
	})
	return u
}

// accounts is a configuration with the model "m" on all the upstreams, and "n"
// on the last one alone.
func accounts(ups ...*rawUpstream) fsm.Config {
	cfg := fsm.DefaultConfig()
	var all []fsm.Deployment
	for i, u := range ups {
		all = append(all, fsm.Deployment{ID: "d" + itoa(i), Provider: fsm.ProviderOpenAI, APIBase: u.url + "/v1", APIKey: "os.environ/KEY"})
	}
	last := all[len(all)-1]
	last.ID = "n0"
	cfg.Models = []fsm.Model{{Name: "m", Deployments: all}, {Name: "n", Deployments: []fsm.Deployment{last}}}
	return cfg
}

func (u *rawUpstream) count() int { return len(u.requests()) }

func TestResponsesAreFoundWhereTheyWereMade(t *testing.T) {
	a, b := account(t, "resp_a"), account(t, "resp_b")
	r := newRig(t, accounts(a, b), nil)
	user := []string{"Authorization", "Bearer " + userKey}
	for _, c := range []struct {
		method, path, want string
		status             int
		a, b               int // upstream calls made for it
	}{
		{"GET", "/v1/responses/resp_b?include[]=x&stream=false", `"resp_b"`, 200, 1, 1},
		{"GET", "/v1/responses/resp_b", `"resp_b"`, 200, 0, 1}, // it is remembered
		{"GET", "/responses/resp_b/input_items?limit=2", `"resp_b"`, 200, 0, 1},
		{"POST", "/v1/responses/resp_b/cancel", `"resp_b"`, 200, 0, 1},
		{"GET", "/v1/responses/resp_a", `"resp_a"`, 200, 1, 0},
		{"DELETE", "/v1/responses/resp_b", `"resp_b"`, 200, 0, 1},
		{"GET", "/v1/responses/resp_b", `"resp_b"`, 200, 1, 1}, // forgotten
		{"GET", "/v1/responses/resp_none", "Response with id 'resp_none' not found", 404, 1, 1},
		{"GET", "/v1/responses/..", "dots", 400, 0, 0},
		{"GET", "/v1/responses/resp_a%2fb", "encoded", 400, 0, 0},
		{"PUT", "/v1/responses/resp_a", "GET, DELETE", 405, 0, 0},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			beforeA, beforeB := a.count(), b.count()
			got := r.do(c.method, c.path, "", user...)
			if got.StatusCode != c.status || !strings.Contains(got.body, c.want) {
				t.Errorf("%d %s", got.StatusCode, got.body)
			}
			if da, db := a.count()-beforeA, b.count()-beforeB; da != c.a || db != c.b {
				t.Errorf("%d and %d calls went up, want %d and %d", da, db, c.a, c.b)
			}
		})
	}
	if n := len(r.gate.tickets); n != 0 {
		t.Errorf("%d tickets were asked for", n)
	}
	got := b.requests()[0]
	if got.uri != "/v1/responses/resp_b?include%5B%5D=x&stream=false" || got.header.Get("Authorization") != "Bearer "+providerKey || got.header.Get("Content-Type") != "" {
		t.Errorf("%s %v", got.uri, got.header)
	}
	wantError(t, r.do("GET", "/v1/responses/resp_a", ""), 401, "", "No api key")
}

func TestResponsesOfModelsThatAKeyMayNotUse(t *testing.T) {
	a, b := account(t, "resp_a"), account(t, "resp_b")
	r := newRig(t, accounts(a, b), nil)
	r.addKey("sk-narrow-0123456789", fsm.Key{Models: []string{"n"}})
	r.addKey("sk-nothing-0123456789", fsm.Key{Models: []string{"gone"}})
	narrow := []string{"Authorization", "Bearer sk-narrow-0123456789"}
	if got := r.do("GET", "/v1/responses/resp_a", "", narrow...); got.StatusCode != 404 || a.count() != 0 {
		t.Errorf("%d %s, %d calls", got.StatusCode, got.body, a.count())
	}
	if got := r.do("GET", "/v1/responses/resp_b", "", narrow...); got.StatusCode != 200 || got.Header.Get("x-litellm-model-group") != "n" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	wantError(t, r.do("GET", "/v1/responses/resp_b", "", "Authorization", "Bearer sk-nothing-0123456789"), 404, "", "may use")
}

func TestModelsOfWhichAKeyMayUseSomething(t *testing.T) {
	mock := []fsm.Deployment{{Provider: fsm.ProviderMock}}
	cfg := fsm.DefaultConfig()
	cfg.Models = []fsm.Model{{Name: "a", Deployments: mock}, {Name: "b", Deployments: mock}, {Name: "x/*", Deployments: mock}}
	cfg.Aliases = map[string]string{"fast": "b"}
	r := newRig(t, cfg, nil)
	for _, c := range []struct {
		models, team []string
		want         string
	}{
		{nil, nil, "a b x/*"}, {[]string{"a"}, nil, "a"}, {[]string{"fast"}, nil, "b"}, {[]string{"x/one"}, nil, "x/*"}, {[]string{"x/*"}, nil, "x/*"},
		{[]string{"*"}, nil, "a b x/*"}, {[]string{"gone"}, nil, ""}, {[]string{"a", "b"}, []string{"b", "x/*"}, "b"}, {nil, []string{"x/two"}, "x/*"},
	} {
		id := Identity{Key: &fsm.Key{Models: c.models}}
		if c.team != nil {
			id.Team = &fsm.Team{Models: c.team}
		}
		var got []string
		for _, m := range id.usable(r.state.View().Config()) {
			got = append(got, m.Model.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("key %v, team %v: %v, want %s", c.models, c.team, got, c.want)
		}
	}
}

func TestResponsesGoOnWhereTheyBegan(t *testing.T) {
	a, b := account(t, "resp_a"), account(t, "resp_b")
	r := newRig(t, accounts(a, b), nil)
	for _, c := range []struct{ previous, want string }{
		{"resp_a", "d0"}, {"resp_b", "d1"}, {"resp_a", "d0"}, {"resp_b", "d1"},
	} {
		got := r.post("/v1/responses", `{"model":"m","previous_response_id":"`+c.previous+`"}`)
		if id := got.Header.Get("x-litellm-model-id"); got.StatusCode != 200 || id != c.want {
			t.Errorf("after %s: %d at %s, want %s", c.previous, got.StatusCode, id, c.want)
		}
	}
	got := r.post("/v1/responses", `{"model":"m","previous_response_id":"resp_unknown"}`)
	if got.StatusCode != 200 {
		t.Errorf("an unknown one: %d %s", got.StatusCode, got.body)
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 5, Output: 5}) {
		t.Errorf("settled %+v", u)
	}
}

func TestAccountsThatCannotSayAreNotTakenForNo(t *testing.T) {
	broken := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("500 X", `{}`)) })
	silent := newRaw(t, reset)
	b := account(t, "resp_b")
	r := newRig(t, accounts(broken, silent, b), nil)
	user := []string{"Authorization", "Bearer " + userKey}
	if got := r.do("GET", "/v1/responses/resp_b", "", user...); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	wantError(t, r.do("GET", "/v1/responses/resp_none", "", user...), 502, "", "")
}

func TestAccountsThatSayNoInOtherWords(t *testing.T) {
	none := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("501 X", `{}`)) })
	other := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("405 X", `{}`)) })
	strict := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("400 X", `{"error":{"message":"limit is too large"}}`)) })
	b := account(t, "resp_b")
	user := []string{"Authorization", "Bearer " + userKey}
	r := newRig(t, accounts(none, strict, other, b), nil)
	if got := r.do("GET", "/v1/responses/resp_b", "", user...); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if got := r.do("GET", "/v1/responses/resp_none", "", user...); got.StatusCode != 400 || !strings.Contains(got.body, "limit is too large") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	r = newRig(t, accounts(none, other), nil)
	wantError(t, r.do("GET", "/v1/responses/resp_none", "", user...), 404, typeInvalid, "not found")
	r = newRig(t, accounts(other), nil)
	if got := r.do("GET", "/v1/responses/resp_none", "", user...); got.StatusCode != 405 {
		t.Errorf("the only one's word is changed: %d %s", got.StatusCode, got.body)
	}
}

func TestFewAccountsAreAsked(t *testing.T) {
	var ups []*rawUpstream
	for range maxOwners + 3 {
		ups = append(ups, account(t, "resp_x"+itoa(len(ups))))
	}
	r := newRig(t, accounts(ups...), nil)
	r.do("GET", "/v1/responses/none", "", "Authorization", "Bearer "+userKey)
	n := 0
	for _, u := range ups {
		n += u.count()
	}
	if n != maxOwners {
		t.Errorf("%d accounts were asked", n)
	}
}

func TestDeploymentsOfOneAccountAreAskedOnce(t *testing.T) {
	a := account(t, "resp_a")
	r := newRig(t, accounts(a, a, a), nil)
	r.do("GET", "/v1/responses/none", "", "Authorization", "Bearer "+userKey)
	if a.count() != 1 {
		t.Errorf("%d calls", a.count())
	}
}

func TestBackgroundAnswersAreChargedAnEstimate(t *testing.T) {
	up := newRaw(t, func(c net.Conn) { say(c, jsonAnswer("200 OK", `{"id":"resp_q","status":"queued","usage":null}`)) })
	r := newRig(t, one(up.url), nil)
	for i, c := range []struct {
		body   string
		output int64
	}{
		{`{"model":"m","background":true}`, defaultOutput},
		{`{"model":"m","background":true,"max_output_tokens":100}`, 100},
	} {
		r.post("/v1/responses", c.body)
		if u := r.gate.spent(t, i); u.Output != c.output {
			t.Errorf("%s: settled %+v", c.body, u)
		}
	}
}

func TestOriginsAreBounded(t *testing.T) {
	var o origins
	for i := range 2*maxOrigins + 7 {
		o.put(itoa(i), origin{"m", "d"})
	}
	if n := len(o.new) + len(o.old); n > maxOrigins {
		t.Errorf("%d are kept", n)
	}
	if _, ok := o.get(itoa(2*maxOrigins + 6 - maxOrigins/2)); !ok {
		t.Error("one of the newest was forgotten")
	}
}

func TestAzureHasItsResponsesOutsideOfDeployments(t *testing.T) {
	for version, want := range map[string]string{
		"":                   "/openai/v1/responses/resp_1/cancel",
		"2025-04-01-preview": "/openai/responses/resp_1/cancel?api-version=2025-04-01-preview",
	} {
		up := account(t, "resp_1")
		cfg := one(up.url)
		cfg.Models[0].Deployments[0] = fsm.Deployment{ID: "az", Provider: fsm.ProviderAzure, APIBase: up.url, APIKey: "os.environ/K", APIVersion: version}
		r := newRig(t, cfg, nil)
		r.do("POST", "/v1/responses/resp_1/cancel", "", "Authorization", "Bearer "+userKey)
		if got := up.requests()[0].uri; got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}

func TestMockKeepsOneResponse(t *testing.T) {
	r := newRig(t, mocked(), nil)
	user := []string{"Authorization", "Bearer " + userKey}
	a := r.post("/v1/responses", respondBody)
	if a.StatusCode != 200 || !strings.Contains(a.body, "event: response.completed\n") || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if u := r.gate.spent(t, 0); u != (limiter.Usage{Input: 10, Output: 20}) {
		t.Errorf("settled %+v", u)
	}
	for path, status := range map[string]int{mockResponseID: 200, mockResponseID + "/input_items": 200, "resp_other": 404} {
		if a := r.do(http.MethodGet, "/v1/responses/"+path, "", user...); a.StatusCode != status {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
}
