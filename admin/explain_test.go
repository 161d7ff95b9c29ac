package admin_test

import (
	"encoding/json"
	"testing"

	"sluice/admin"
)

func TestExplainTakesAKeyBySecretHashOrAlias(t *testing.T) {
	r := newRig(t)
	secret, made := r.generate(`{"key_alias":"mine","metadata":{"priority":"prod"},"rpm_limit":0}`)
	hash, _ := made["token"].(string)
	for _, key := range []string{secret, hash, "mine"} {
		p := r.send("GET", "/limits/explain?model=fast&key="+key, "")
		var e admin.ExplainAnswer
		if err := json.Unmarshal([]byte(p.body), &e); p.status != 200 || err != nil {
			t.Fatalf("%d %s", p.status, p.body)
		}
		if e.Model != "gpt-5.6-luna" || e.Key == nil || *e.Key != hash || e.Priority == nil || *e.Priority != "prod" || e.Admitted ||
			*e.LimitedBy != "key" || *e.Scope != "api_key" || *e.Dimension != "requests" || e.FitsInSeconds != 60 || len(e.Scopes) != 3 {
			t.Errorf("%s", p.body)
		}
		if x := e.Scopes[0]; x.Name != hash || x.Admitted || x.ResetsIn != nil || x.RPM.Remaining.String() != "0" || x.TPM.Limit.IsSet() {
			t.Errorf("the key: %+v", x)
		}
		if x := e.Scopes[1]; x.Scope != "model" || !x.Admitted || len(x.Pools) == 0 || x.Pools[0].Active != nil {
			t.Errorf("the model: %+v", x)
		}
	}
	var e admin.ExplainAnswer
	if p := r.send("GET", "/limits/explain?model=fast", ""); json.Unmarshal([]byte(p.body), &e) != nil || !e.Admitted || e.Key != nil || e.LimitedBy != nil {
		t.Errorf("the master key: %s", p.body)
	}
	for path, status := range map[string]int{
		"/limits/explain": 422, "/limits/explain?model=nope": 404, "/limits/explain?model=fast&key=sk-nobody-knows": 404,
	} {
		if p := r.send("GET", path, ""); p.status != status {
			t.Errorf("%s: %d %s, want %d", path, p.status, p.body, status)
		}
	}
}
