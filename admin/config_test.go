package admin_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sluice/admin/admintest"
)

func TestConfigIsShownAppliedAndRolledBack(t *testing.T) {
	r := newRig(t)
	shown := r.ok("GET", "/config", "")
	if shown["version"] != 1.0 || len(shown["config"].(map[string]any)["models"].([]any)) != 2 {
		t.Errorf("%v", shown)
	}
	cfg := admintest.Config()
	cfg.Models = cfg.Models[:1]
	cfg.Aliases = nil
	body, err := json.Marshal(map[string]any{"config": cfg, "source": "smaller.toml"})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.ok("POST", "/config", string(body)); !reflect.DeepEqual(got, map[string]any{"version": 2.0, "status": "applied"}) {
		t.Errorf("%v", got)
	}
	if n := len(r.state.View().Config().Models); n != 1 {
		t.Errorf("%d models", n)
	}
	if got := r.ok("POST", "/config/rollback", `{"version":1}`); got["status"] != "applied" || len(r.state.View().Config().Models) != 2 {
		t.Errorf("%v", got)
	}
	versions := r.ok("GET", "/config/history", "")["versions"].([]any)
	if len(versions) != 3 {
		t.Fatalf("%v", versions)
	}
	newest, oldest := versions[0].(map[string]any), versions[2].(map[string]any)
	if newest["current"] != true || newest["version"] != 3.0 || oldest["version"] != 1.0 || oldest["source"] != "test" || oldest["current"] != false {
		t.Errorf("%v", versions)
	}
}

func TestABadConfigIsRefusedWithAllItsFaults(t *testing.T) {
	r := newRig(t)
	p := r.send("POST", "/config", `{"config":{"models":[{"name":"m","deployments":[{"provider":"nope","api_key":"`+r.secret("sk-literal-provider-key")+`"}]}],"priority_reservation":{"shares":{"p":{"type":"percent","value":2}}}}}`)
	message, _, param, _ := p.errorOf(t)
	detail, _ := p.json(t)["detail"].([]any)
	if p.status != 400 || len(detail) < 3 || param == nil || !strings.Contains(message, "nope") || !strings.Contains(message, "priority_reservation.p") {
		t.Errorf("%d %s", p.status, p.body)
	}
	for body, status := range map[string]int{
		`{}`: 422, `{"config":{"modles":[]}}`: 400, `{"config":[]}`: 400, `{"config":{"models":[{"name":"m","rpm":-1}]}}`: 400, `{"config":{"models":"x"}}`: 400,
		`{"config":{},"source":5}`: 422, `{"config":{},"source":"` + strings.Repeat("x", 300) + `"}`: 400,
	} {
		if p := r.send("POST", "/config", body); p.status != status {
			t.Errorf("%s: %d %s", body, p.status, p.body)
		}
	}
	for body, status := range map[string]int{`{}`: 422, `{"version":"1"}`: 422, `{"version":-1}`: 422, `{"version":99}`: 404} {
		if p := r.send("POST", "/config/rollback", body); p.status != status {
			t.Errorf("%s: %d %s", body, p.status, p.body)
		}
	}
	if r.state.View().ConfigVersion() != 1 {
		t.Error("a new version came to be")
	}
}

func TestPrioritiesAreSetAndUnset(t *testing.T) {
	r := newRig(t)
	for body, status := range map[string]int{
		`{"priority":"x","share":0.2}`: 200, `{"priority":"y","share":"20%"}`: 200, `{"priority":"z","share":{"type":"percent","value":0.3}}`: 200,
		`{"priority":"a","share":2}`: 400, `{"priority":"a","share":"2"}`: 400, `{"priority":"a","share":null}`: 422, `{"priority":"a"}`: 422,
		`{"share":1}`: 422, `{"priority":"a","share":-0.5}`: 400, `{"priority":"a","share":"5rpm"}`: 400, // my-fake-model has no rpm
		`{"priority":"` + strings.Repeat("x", 300) + `","share":0.1}`: 400, `{"priority":5,"share":0.1}`: 422,
	} {
		if p := r.send("POST", "/priority/set", body); p.status != status {
			t.Errorf("%s: %d %s", body, p.status, p.body)
		}
	}
	r.ok("POST", "/priority/unset", `{"priority":"x"}`)
	if p := r.send("POST", "/priority/unset", `{"priority":"x"}`); p.status != 404 {
		t.Errorf("%d %s", p.status, p.body)
	}
	if p := r.send("POST", "/priority/unset", `{}`); p.status != 422 {
		t.Errorf("%d %s", p.status, p.body)
	}
	p := r.send("GET", "/priority/list", "")
	got := p.json(t)
	want := `[{"priority":"dev","share":{"type":"percent","value":0.1}},{"priority":"prod","share":{"type":"percent","value":0.9}},{"priority":"y","share":{"type":"percent","value":0.2}},{"priority":"z","share":{"type":"percent","value":0.3}}]`
	b, _ := json.Marshal(got["priorities"])
	if !sameJSON(t, string(b), want) || got["default_priority"] != 0.25 || got["saturation_threshold"] != 0.5 || got["config_version"] != 5.0 || len(got["warnings"].([]any)) == 0 {
		t.Errorf("%s", p.body)
	}
}

func TestModelInfoHidesCredentials(t *testing.T) {
	r := newRig(t)
	p := r.send("GET", "/model/info", "")
	if strings.Contains(p.body, "UPSTREAM_KEY") {
		t.Errorf("reference is shown: %s", p.body)
	}
	if !sameJSON(t, p.body, `{"data":[
		{"model_name":"my-fake-model","litellm_params":{"model":"mock/my-fake-model","api_base":null,"rpm":null,"tpm":null,"weight":1},
		 "model_info":{"id":"fake-1","db_model":false,"key":"my-fake-model","litellm_provider":"mock","mode":"chat","model_rpm":null,"model_tpm":60}},
		{"model_name":"gpt-5.6-luna","litellm_params":{"model":"openai_compatible/luna","api_base":"https://llm.example/v1","rpm":null,"tpm":null,"weight":1},
		 "model_info":{"id":"luna-1","db_model":false,"key":"luna","litellm_provider":"openai_compatible","mode":"chat","model_rpm":10,"model_tpm":1000}}]}`) {
		t.Errorf("%s", p.body)
	}
}

// Shares without the settings that go with them: default_priority 0 would lock
// out every key without a priority, a threshold of 0 hold all to their shares.
func TestWhatAConfigLeavesOutIsTheDefault(t *testing.T) {
	r := newRig(t)
	r.ok("POST", "/config", `{"config":{"models":[{"name":"m","rpm":10,"deployments":[{"provider":"mock"}]}],"priority_reservation":{"shares":{"p":{"type":"percent","value":0.5}}},"limits":{"on_no_quorum":"deny"}}}`)
	c := r.state.View().Config()
	if c.Reservation.Default != 0.25 || c.Reservation.Threshold != 0.5 || c.SaturationTTL != 60 || !c.Limits.CountCachedTokens || c.Limits.OnNoQuorum != "deny" {
		t.Errorf("%+v %+v", c.Reservation, c.Limits)
	}
	r.ok("POST", "/config", `{"config":{"models":[],"priority_reservation":{"default_priority":0,"saturation_threshold":0},"limits":{"count_cached_tokens":false},"saturation_check_cache_ttl":0}}`)
	if c := r.state.View().Config(); c.Limits.CountCachedTokens {
		t.Errorf("a choice was replaced: %+v %+v", c.Reservation, c.Limits)
	}
}
