package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/admin/admintest"
	"sluice/limiter"
)

// serve puts the rig on a port and returns a client of it and the waits between its retries.
func (r *rig) serve(wrap ...func(http.Handler) http.Handler) (*admin.Client, *[]time.Duration) {
	r.t.Helper()
	var h http.Handler = r.admin
	for _, w := range wrap {
		h = w(h)
	}
	srv := httptest.NewServer(h)
	r.t.Cleanup(srv.Close)
	var waits []time.Duration
	c, err := admin.NewClient(admin.ClientOptions{Server: srv.URL, MasterKey: masterKey, HTTP: srv.Client(),
		Sleep: func(ctx context.Context, d time.Duration) error { waits = append(waits, d); return ctx.Err() }})
	if err != nil {
		r.t.Fatal(err)
	}
	return c, &waits
}

func TestClientManagesKeysAndTeams(t *testing.T) {
	r := newRig(t)
	queries := ""
	c, _ := r.serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			queries += req.RequestURI + "\n"
			next.ServeHTTP(w, req)
		})
	})
	ctx := t.Context()
	team, err := c.NewTeam(ctx, admin.Fields{"team_id": "t1", "rpm_limit": 5})
	must(t, err)
	key, err := c.GenerateKey(ctx, admin.Fields{"team_id": "t1"})
	must(t, err)
	info, err := c.KeyInfo(ctx, key.Key)
	must(t, err)
	rows, err := c.ListKeys(ctx, url.Values{"team_id": {"t1"}})
	must(t, err)
	if team.RPM.String() != "5" || info.Key != key.Token || len(rows) != 1 || rows[0].Token != key.Token {
		t.Errorf("%+v %+v %+v", team, info, rows)
	}
	updated, err := c.UpdateKey(ctx, key.Key, admin.Fields{"rpm_limit": 1, "key_alias": "a", "duration": nil})
	must(t, err)
	blocked, err := c.BlockKey(ctx, key.Token, true)
	must(t, err)
	_, err = c.BlockKey(ctx, key.Token, false)
	must(t, err)
	fresh, err := c.RegenerateKey(ctx, key.Key, nil)
	must(t, err)
	if updated.RPM.String() != "1" || !*blocked.Blocked || fresh.Key == key.Key || *fresh.KeyAlias != "a" {
		t.Errorf("%+v %+v %+v", updated, blocked, fresh)
	}
	_, err = c.DeleteKeys(ctx, []string{fresh.Key})
	must(t, err)
	teamUpdated, err := c.UpdateTeam(ctx, "t1", admin.Fields{"rpm_limit": nil})
	must(t, err)
	blockedTeam, err := c.BlockTeam(ctx, "t1", true)
	must(t, err)
	teams, err := c.ListTeams(ctx)
	must(t, err)
	teamInfo, err := c.TeamInfo(ctx, "t1")
	must(t, err)
	_, err = c.DeleteTeams(ctx, []string{"t1"})
	must(t, err)
	if teamUpdated.Data.RPM.IsSet() || !blockedTeam.Blocked || len(teams) != 1 || !teamInfo.TeamInfo.Blocked {
		t.Errorf("%+v %+v %+v %+v", teamUpdated, blockedTeam, teams, teamInfo)
	}
	if strings.Contains(queries, "sk-") {
		t.Errorf("a secret in a URL:\n%s", queries)
	}
}

func TestClientManagesTheCluster(t *testing.T) {
	r := newRig(t)
	c, _ := r.serve()
	ctx := t.Context()
	_, err := c.SetPriority(ctx, "x", limiter.Share{Kind: limiter.SharePercent, Value: 0.2})
	must(t, err)
	_, err = c.UnsetPriority(ctx, "x")
	must(t, err)
	priorities, err := c.Priorities(ctx)
	must(t, err)
	models, err := c.Models(ctx)
	must(t, err)
	limits, err := c.Limits(ctx, "fast")
	must(t, err)
	if len(priorities.Priorities) != 2 || len(models.Data) != 2 || len(limits.Models) != 1 {
		t.Errorf("%+v %+v %+v", priorities, models, limits)
	}
	_, err = c.ClusterStatus(ctx)
	must(t, err)
	_, err = c.RemoveNode(ctx, "n2")
	must(t, err)
	_, err = c.TransferLeadership(ctx, "")
	must(t, err)
	cfg, err := c.Config(ctx)
	must(t, err)
	_, err = c.ApplyConfig(ctx, cfg.Config, "again")
	must(t, err)
	_, err = c.RollbackConfig(ctx, 1)
	must(t, err)
	history, err := c.ConfigHistory(ctx)
	must(t, err)
	if len(history.Versions) != 5 {
		t.Errorf("%+v", history)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClientListsAllPages(t *testing.T) {
	r := newRig(t)
	for range 205 {
		r.generate(`{}`)
	}
	c, _ := r.serve()
	rows, err := c.ListKeys(t.Context(), nil)
	if err != nil || len(rows) != 205 {
		t.Errorf("%d, %v", len(rows), err)
	}
}

func TestClientRepeatsAWriteOnlyWithTheSameIdempotencyKey(t *testing.T) {
	r := newRig(t)
	c, waits := r.serve()
	r.log.Fail(admintest.Fault{Err: errUnknown, Applied: true}, admintest.Fault{Err: errNoLeader})
	key, err := c.GenerateKey(t.Context(), admin.Fields{"key_alias": "a"})
	if err != nil || r.state.View().KeyCount() != 1 {
		t.Fatalf("%v, %d keys", err, r.state.View().KeyCount())
	}
	if _, ok := r.state.View().Key(hash(key.Key)); !ok || len(*waits) != 2 || (*waits)[0] != time.Second {
		t.Errorf("stored %v, waits %v", ok, *waits)
	}
}

func TestClientGivesUp(t *testing.T) {
	r := newRig(t)
	c, waits := r.serve()
	for range 10 {
		r.log.Fail(admintest.Fault{Err: errNoLeader})
	}
	_, err := c.GenerateKey(t.Context(), nil)
	var refused *admin.Error
	if !errors.As(err, &refused) || refused.Status != 503 || len(*waits) != 3 {
		t.Errorf("%v after %v", err, *waits)
	}
	if _, err = c.KeyInfo(t.Context(), "sk-unknown-key-1"); !errors.As(err, &refused) || refused.Status != 404 || refused.Param != "key" {
		t.Errorf("%v", err)
	}
}

func TestClientOfSomethingElse(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a web page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"an error page": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "\x1b[31mno", 500) },
		"a redirect":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"odd error value": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = w.Write([]byte(`{"error":"x"}`))
		},
	} {
		srv := httptest.NewServer(h)
		c, err := admin.NewClient(admin.ClientOptions{Server: srv.URL, MasterKey: masterKey})
		must(t, err)
		if _, err := c.Config(t.Context()); err == nil || strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), masterKey) {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
		if _, err := c.KeyInfo(t.Context(), "sk-some-secret-1"); !errors.Is(err, admin.ErrUnreachable) || strings.Contains(err.Error(), "key=") {
			t.Errorf("closed: %v", err)
		}
	}
	for _, bad := range []admin.ClientOptions{{}, {Server: "localhost:4000", MasterKey: "sk-1"}, {Server: "http://u:p@h", MasterKey: "sk-1"},
		{Server: "http://h", MasterKey: ""}, {Server: "http://h", MasterKey: "sk-1\r\nX: y"}, {Server: "ftp://h", MasterKey: "sk-1"}} {
		if _, err := admin.NewClient(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
