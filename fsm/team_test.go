package fsm

import (
	"testing"

	"sluice/limiter"
)

func TestDeletedTeamTakesItsKeysWithIt(t *testing.T) {
	r := newRig(t)
	mustTeam(t, r.Client, Team{ID: "red"})
	mustTeam(t, r.Client, Team{ID: "blue"})
	for _, k := range []struct{ name, team string }{{"a", "red"}, {"b", "red"}, {"c", "blue"}, {"d", ""}} {
		key := testKey(k.name)
		key.TeamID, key.Alias = k.team, "alias-"+k.name
		mustKey(t, r.Client, key)
	}
	if got := r.s.View().TeamKeys("red"); len(got) != 2 || got[0].ID > got[1].ID {
		t.Fatalf("team red has %d keys", len(got))
	}
	_, err := r.DeleteTeams(t.Context(), []string{"red", "nobody"}, WriteOptions{})
	wantErr(t, err, ErrNotFound)
	if v := r.s.View(); v.TeamCount() != 2 || v.KeyCount() != 4 {
		t.Fatal("an unknown team must keep all from being deleted")
	}
	got, err := r.DeleteTeams(t.Context(), []string{"red", "red"}, WriteOptions{})
	if err != nil || len(got) != 1 {
		t.Fatalf("deleted %v, %v", got, err)
	}
	v := r.s.View()
	if _, ok := v.Key(id("a")); ok || v.KeyCount() != 2 {
		t.Errorf("%d keys are left", v.KeyCount())
	}
	if _, ok := v.KeyByAlias("alias-a"); ok {
		t.Error("an alias outlived its key")
	}
	if _, ok := v.Key(id("d")); !ok {
		t.Error("a key without a team is gone")
	}
}

func TestKeyMayNotNameATeamThatDoesNotExist(t *testing.T) {
	r := newRig(t)
	lost := testKey("a")
	lost.TeamID = "red"
	_, err := r.CreateKey(t.Context(), lost, WriteOptions{})
	wantInvalid(t, err, "team_id")
	mustKey(t, r.Client, testKey("b"))
	_, err = r.UpdateKey(t.Context(), id("b"), patchOf(t, `{"team_id":"red"}`), WriteOptions{})
	wantInvalid(t, err, "team_id")
	mustTeam(t, r.Client, Team{ID: "red"})
	if _, err := r.UpdateKey(t.Context(), id("b"), patchOf(t, `{"team_id":"red"}`), WriteOptions{}); err != nil {
		t.Errorf("a key may move to a team that exists: %v", err)
	}
}

func TestTeamIsCreatedOnceAndPatched(t *testing.T) {
	r := newRig(t)
	_, err := r.CreateTeam(t.Context(), Team{}, WriteOptions{})
	wantInvalid(t, err, "team_id")
	mustTeam(t, r.Client, Team{ID: "red", RPM: limiter.Of(5), Metadata: map[string]any{"priority": "prod"}})
	_, err = r.CreateTeam(t.Context(), Team{ID: "red"}, WriteOptions{})
	wantErr(t, err, ErrExists)
	_, err = r.UpdateTeam(t.Context(), "blue", nil, WriteOptions{})
	wantErr(t, err, ErrNotFound)
	_, err = r.UpdateTeam(t.Context(), "red", patchOf(t, `{"team_id":"x"}`), WriteOptions{})
	wantInvalid(t, err, "team_id")
	out, err := r.UpdateTeam(t.Context(), "red", patchOf(t, `{"rpm_limit":null,"max_parallel_requests":2,"blocked":true}`), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := limiter.Limits{Parallel: limiter.Of(2)}
	if out.Policy().Limits != want || !out.Blocked || out.Priority() != "prod" {
		t.Errorf("team is %s", mustJSON(t, out))
	}
	if got := r.s.View().Policy().Team("red"); got == nil || got.Limits != want {
		t.Errorf("policy is %+v", got)
	}
	if r.s.View().Policy().Team("blue") != nil {
		t.Error("an unknown team has a policy")
	}
}
