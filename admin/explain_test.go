package admin_test

import (
	"encoding/json"
	"testing"

	"sluice/admin"
	"sluice/admin/admintest"
	"sluice/fsm"
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
	if e.AssumedTokens != 1 {
		t.Errorf("where tokens are not reserved %d are assumed, want 1", e.AssumedTokens)
	}
	for path, status := range map[string]int{
		"/limits/explain?model=fast&tokens=0": 400, "/limits/explain?model=fast&tokens=many": 400, "/limits/explain?model=fast&tokens=9": 200,
		"/limits/explain": 422, "/limits/explain?model=nope": 404, "/limits/explain?model=fast&key=sk-nobody-knows": 404,
	} {
		if p := r.send("GET", path, ""); p.status != status {
			t.Errorf("%s: %d %s, want %d", path, p.status, p.body, status)
		}
	}
}

func TestExplainAssumesTheTokensThatAreAskedFor(t *testing.T) {
	for _, kind := range []string{"total", "input", "output"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			cfg := admintest.Config()
			cfg.Limits.TokenAccounting, cfg.Limits.TokenRateLimitType = fsm.AccountReserved, kind
			if _, err := r.store.ApplyConfig(t.Context(), cfg, "test", fsm.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				query    string
				assumed  int64
				admitted bool
			}{
				{"", 1, true},
				{"&tokens=1000", 1000, true}, // the whole tpm
				{"&tokens=1001", 1001, false},
			} {
				var e admin.ExplainAnswer
				p := r.send("GET", "/limits/explain?model=fast"+c.query, "")
				if err := json.Unmarshal([]byte(p.body), &e); err != nil || e.AssumedTokens != c.assumed || e.Admitted != c.admitted {
					t.Errorf("%q: %s, want %d tokens assumed and admitted %v", c.query, p.body, c.assumed, c.admitted)
				}
			}
		})
	}
}
