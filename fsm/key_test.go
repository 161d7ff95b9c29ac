package fsm

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/limiter"
)

func TestCreatedKeyIsReadableAtOnceAndKeepsItsFields(t *testing.T) {
	r := newRig(t)
	in := testKey("a")
	in.Alias, in.UserID, in.Models = "laptop", "alice", []string{"m"}
	in.Metadata = map[string]any{"priority": "prod", "big": json.Number("12345678901234567890")}
	in.RPM, in.TPM, in.MaxParallel = limiter.Of(0), limiter.Of(100), limiter.Of(2)
	in.Expires = time.Date(2027, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))
	in.Extra = map[string]json.RawMessage{"max_budget": json.RawMessage("0.10")}
	out := mustKey(t, r.Client, in)
	stored, ok := r.s.View().Key(in.ID)
	if !ok {
		t.Fatal("key is not in the view")
	}
	if got, want := mustJSON(t, out), mustJSON(t, stored); got != want {
		t.Errorf("answer %s differs from what is stored %s", got, want)
	}
	if stored.Priority() != "prod" || out.Priority() != "prod" {
		t.Errorf("priority is %q", stored.Priority())
	}
	p := stored.Policy()
	if p == nil || p.Limits != (limiter.Limits{Requests: limiter.Of(0), Tokens: limiter.Of(100), Parallel: limiter.Of(2)}) {
		t.Errorf("policy is %+v", p)
	}
	if !stored.CreatedAt.Equal(r.time.now()) || stored.Expires.Location() != time.UTC {
		t.Errorf("times are %v and %v", stored.CreatedAt, stored.Expires)
	}
	if s := mustJSON(t, stored); !strings.Contains(s, "12345678901234567890") || !strings.Contains(s, "0.10") {
		t.Errorf("digits were lost: %s", s)
	}
}

func TestKeyWithoutLimitsHasNoPolicy(t *testing.T) {
	r := newRig(t)
	if k := mustKey(t, r.Client, testKey("a")); k.Policy() != nil {
		t.Errorf("policy is %+v", k.Policy())
	}
	if p := r.s.View().Policy().Key(id("a")); p != nil {
		t.Errorf("policy is %+v", p)
	}
}

func TestKeyIsRefused(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, tc := range []struct {
		name, field string
		change      func(*Key)
	}{
		{"id is no hash", "token", func(k *Key) { k.ID = "sk-secret" }},
		{"id in upper case", "token", func(k *Key) { k.ID = strings.ToUpper(k.ID) }},
		{"alias of 10 kB", "key_alias", func(k *Key) { k.Alias = strings.Repeat("a", 10_000) }},
		{"alias too long", "key_alias", func(k *Key) { k.Alias = long }},
		{"alias with a zero-width space", "key_alias", func(k *Key) { k.Alias = "a\u200bb" }},
		{"alias with a newline", "key_alias", func(k *Key) { k.Alias = "a\nb" }},
		{"alias with a direction mark", "key_alias", func(k *Key) { k.Alias = "a\u202eb" }},
		{"alias with a byte order mark", "key_alias", func(k *Key) { k.Alias = "\ufeffa" }},
		{"priority is a number", "metadata.priority", func(k *Key) { k.Metadata = map[string]any{"priority": 1} }},
		{"team id too long", "team_id", func(k *Key) { k.TeamID = long }},
		{"user id with a control character", "user_id", func(k *Key) { k.UserID = "a\x00" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			k := testKey("a")
			tc.change(&k)
			_, err := r.CreateKey(t.Context(), k, WriteOptions{})
			wantInvalid(t, err, tc.field)
			if n := r.s.View().KeyCount(); n != 0 {
				t.Errorf("there are %d keys", n)
			}
		})
	}
}

func TestAliasIsUniqueInItsStoredForm(t *testing.T) {
	for _, tc := range []struct {
		name, first, second string
		taken               bool
	}{
		{"the same", "x", "x", true},
		{"blanks around", "x", " x\t", true},
		{"no-break space after", "x", "x\u00a0", true},
		{"composed and decomposed", "caf\u00e9", "cafe\u0301", true},
		{"another case", "x", "X", false},
		{"emoji", "🚀", "🚀", true},
		{"another emoji", "🚀", "🛰", false},
		{"both empty", "", "", false},
		{"both blank", " ", "\t", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			a, b := testKey("a"), testKey("b")
			a.Alias, b.Alias = tc.first, tc.second
			mustKey(t, r.Client, a)
			_, err := r.CreateKey(t.Context(), b, WriteOptions{})
			if tc.taken {
				wantErr(t, err, ErrAliasTaken)
			} else if err != nil {
				t.Fatal(err)
			}
			if k, ok := r.s.View().KeyByAlias(tc.second); tc.taken && (!ok || k.ID != a.ID) {
				t.Errorf("alias %q leads to %+v", tc.second, k)
			}
		})
	}
}

func TestOneOfManyConcurrentCreationsGetsTheAlias(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	won := make(chan string, 100)
	for i := range 100 {
		wg.Go(func() {
			k := testKey(nth(i))
			k.Alias = "x"
			if _, err := r.CreateKey(t.Context(), k, WriteOptions{}); err == nil {
				won <- k.ID
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || r.s.View().KeyCount() != 1 {
		t.Fatalf("%d creations succeeded, %d keys are stored", len(won), r.s.View().KeyCount())
	}
}

func TestAliasMovesWithItsKey(t *testing.T) {
	r := newRig(t)
	a, b := testKey("a"), testKey("b")
	a.Alias = "x"
	mustKey(t, r.Client, a)
	mustKey(t, r.Client, b)
	_, err := r.UpdateKey(t.Context(), b.ID, patchOf(t, `{"key_alias":"x "}`), WriteOptions{})
	wantErr(t, err, ErrAliasTaken)
	if _, err := r.UpdateKey(t.Context(), a.ID, patchOf(t, `{"key_alias":" x"}`), WriteOptions{}); err != nil {
		t.Fatalf("a key may keep its alias: %v", err)
	}
	if _, err := r.UpdateKey(t.Context(), a.ID, patchOf(t, `{"key_alias":null}`), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.UpdateKey(t.Context(), b.ID, patchOf(t, `{"key_alias":"x"}`), WriteOptions{}); err != nil {
		t.Fatalf("a freed alias can be taken: %v", err)
	}
	if _, err := r.DeleteKeys(t.Context(), []string{b.ID}, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.s.View().KeyByAlias("x"); ok {
		t.Error("the alias outlived its key")
	}
}

func TestPatchChangesWhatIsPresentAndNullClears(t *testing.T) {
	base := Key{ID: id("a"), Alias: "x", TeamID: "t", Models: []string{"m"}, RPM: limiter.Of(5),
		Metadata: map[string]any{"priority": "prod", "k": "v"}, ModelRPM: map[string]limiter.Limit{"m": limiter.Of(1)},
		Extra: map[string]json.RawMessage{"tags": json.RawMessage(`["a"]`), "max_budget": json.RawMessage("1")}}
	for _, tc := range []struct {
		name, patch string
		check       func(*Key) bool
	}{
		{"nothing", `{}`, func(k *Key) bool { r, _ := k.RPM.Get(); return r == 5 && k.Alias == "x" && k.TeamID == "t" }},
		{"limit set", `{"rpm_limit":9}`, func(k *Key) bool { return k.RPM == limiter.Of(9) && k.Policy().Limits.Requests == limiter.Of(9) }},
		{"limit of nothing", `{"rpm_limit":0}`, func(k *Key) bool { return k.RPM == limiter.Of(0) }},
		{"limit cleared", `{"rpm_limit":null}`, func(k *Key) bool { return !k.RPM.IsSet() }},
		{"per-model limits replaced", `{"model_rpm_limit":{"n":2}}`, func(k *Key) bool {
			return len(k.ModelRPM) == 1 && k.ModelRPM["n"] == limiter.Of(2)
		}},
		{"per-model limit of null is none", `{"model_rpm_limit":{"n":null}}`, func(k *Key) bool { return k.ModelRPM == nil }},
		{"models cleared by empty list", `{"models":[]}`, func(k *Key) bool { return k.Models == nil }},
		{"models cleared", `{"models":null}`, func(k *Key) bool { return k.Models == nil }},
		{"metadata replaced", `{"metadata":{"priority":"dev"}}`, func(k *Key) bool { return k.Priority() == "dev" && len(k.Metadata) == 1 }},
		{"metadata cleared", `{"metadata":null}`, func(k *Key) bool { return k.Priority() == "" && k.Metadata == nil }},
		{"blocked", `{"blocked":true}`, func(k *Key) bool { return k.Blocked }},
		{"expires", `{"expires":"2027-01-01T00:00:00Z"}`, func(k *Key) bool { return k.Expires.Year() == 2027 }},
		{"other fields go to extra", `{"max_budget":2.50,"aliases":{"a":"b"}}`, func(k *Key) bool {
			return string(k.Extra["max_budget"]) == "2.50" && string(k.Extra["aliases"]) == `{"a":"b"}` && k.Extra["tags"] != nil
		}},
		{"other fields are cleared", `{"max_budget":null}`, func(k *Key) bool { return k.Extra["max_budget"] == nil && len(k.Extra) == 1 }},
		{"extra is merged", `{"extra":{"tags":null,"n":1}}`, func(k *Key) bool {
			return k.Extra["tags"] == nil && string(k.Extra["n"]) == "1" && k.Extra["max_budget"] != nil
		}},
		{"extra is cleared", `{"extra":null}`, func(k *Key) bool { return k.Extra == nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			mustTeam(t, r.Client, Team{ID: "t"})
			mustKey(t, r.Client, base)
			before, _ := r.s.View().Key(base.ID)
			was := mustJSON(t, before)
			r.time.pass(time.Second)
			out, err := r.UpdateKey(t.Context(), base.ID, patchOf(t, tc.patch), WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !tc.check(out) {
				t.Errorf("patch %s gave %s", tc.patch, mustJSON(t, out))
			}
			if !out.UpdatedAt.Equal(r.time.now()) || out.CreatedAt.Equal(out.UpdatedAt) {
				t.Errorf("times are %v and %v", out.CreatedAt, out.UpdatedAt)
			}
			if got := mustJSON(t, before); got != was {
				t.Errorf("the old record was changed: %s", got)
			}
		})
	}
}

func TestPatchIsRefusedAsAWhole(t *testing.T) {
	for _, tc := range []struct{ name, patch, field string }{
		{"negative limit", `{"blocked":true,"rpm_limit":-1}`, "rpm_limit"},
		{"fraction", `{"tpm_limit":1.5}`, "tpm_limit"},
		{"text for a number", `{"tpm_limit":"many"}`, "tpm_limit"},
		{"negative limit per model", `{"model_tpm_limit":{"m":-3}}`, "model_tpm_limit"},
		{"models is a text", `{"models":"m"}`, "models"},
		{"metadata is a list", `{"metadata":[]}`, "metadata"},
		{"priority is a list", `{"metadata":{"priority":["a"]}}`, "metadata.priority"},
		{"hash", `{"token":"x"}`, "token"},
		{"name", `{"key_name":"x"}`, "key_name"},
		{"creation time", `{"created_at":null}`, "created_at"},
		{"extra is a text", `{"extra":"x"}`, "extra"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			mustKey(t, r.Client, testKey("a"))
			before := r.s.View()
			_, err := r.UpdateKey(t.Context(), id("a"), patchOf(t, tc.patch), WriteOptions{})
			wantInvalid(t, err, tc.field)
			if r.s.View() != before {
				t.Error("the view changed")
			}
		})
	}
}

func TestRegenerateReplacesTheHashAndKeepsTheRest(t *testing.T) {
	r := newRig(t)
	k := testKey("old")
	k.Alias, k.RPM = "x", limiter.Of(3)
	mustKey(t, r.Client, k)
	mustKey(t, r.Client, testKey("other"))
	_, err := r.RegenerateKey(t.Context(), id("old"), id("other"), "n", nil, WriteOptions{})
	wantErr(t, err, ErrExists)
	_, err = r.RegenerateKey(t.Context(), id("nobody"), id("new"), "n", nil, WriteOptions{})
	wantErr(t, err, ErrNotFound)
	out, err := r.RegenerateKey(t.Context(), id("old"), id("new"), "sk-...new", patchOf(t, `{"tpm_limit":7}`), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if out.ID != id("new") || out.Name != "sk-...new" || out.RPM != limiter.Of(3) || out.TPM != limiter.Of(7) || out.Alias != "x" {
		t.Errorf("key is %s", mustJSON(t, out))
	}
	v := r.s.View()
	if _, ok := v.Key(id("old")); ok {
		t.Error("the old hash still works")
	}
	if got, ok := v.KeyByAlias("x"); !ok || got.ID != id("new") {
		t.Errorf("the alias leads to %+v", got)
	}
}

func TestDeleteKeysTakesTheOnesThatExist(t *testing.T) {
	r := newRig(t)
	mustKey(t, r.Client, testKey("a"))
	mustKey(t, r.Client, testKey("b"))
	got, err := r.DeleteKeys(t.Context(), []string{id("a"), id("nobody"), id("a")}, WriteOptions{})
	if err != nil || len(got) != 1 || got[0] != id("a") {
		t.Fatalf("deleted %v, %v", got, err)
	}
	_, err = r.DeleteKeys(t.Context(), []string{id("a")}, WriteOptions{})
	wantErr(t, err, ErrNotFound)
	if n := r.s.View().KeyCount(); n != 1 {
		t.Errorf("%d keys are left", n)
	}
}

func TestPerModelLimitsFollowAliases(t *testing.T) {
	r := newRig(t)
	cfg := testConfig(mockModel("a", -1, -1), mockModel("b", -1, -1))
	cfg.Aliases = map[string]string{"fast": "a"}
	mustConfig(t, r.Client, cfg)
	k := testKey("k")
	k.ModelRPM = map[string]limiter.Limit{"fast": limiter.Of(5), "a": limiter.Of(7)}
	k.ModelTPM = map[string]limiter.Limit{"fast": limiter.Of(50)}
	mustKey(t, r.Client, k)
	want := limiter.Limits{Requests: limiter.Of(5), Tokens: limiter.Of(50)}
	if got := r.s.View().Policy().Key(k.ID).PerModel["a"]; got != want {
		t.Errorf("limits on a are %+v, want the tighter of both names", got)
	}
	cfg.Aliases = map[string]string{"fast": "b"}
	mustConfig(t, r.Client, cfg)
	per := r.s.View().Policy().Key(k.ID).PerModel
	if per["a"] != (limiter.Limits{Requests: limiter.Of(7)}) || per["b"] != want {
		t.Errorf("after the alias moved the limits are %+v", per)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
