package admin_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/admin/admintest"
)

func TestARepeatedCreationShowsTheSameSecret(t *testing.T) {
	r := newRig(t)
	first, _ := r.generate(`{"key_alias":"a","duration":"1h"}`, "Idempotency-Key", "op-1")
	again, _ := r.generate(`{"key_alias":"a","duration":"1h"}`, "Idempotency-Key", "op-1")
	if first != again || r.state.View().KeyCount() != 1 {
		t.Errorf("%s and %s, %d keys", first, again, r.state.View().KeyCount())
	}
	if other, _ := r.generate(`{}`, "Idempotency-Key", "op-2"); other == first {
		t.Error("two operations share a secret")
	}
	if p := r.send("POST", "/key/generate", `{"key":"sk-something-else-1"}`, "Idempotency-Key", "op-1"); p.status != 409 {
		t.Errorf("another key under the same Idempotency-Key: %d %s", p.status, p.body)
	}
	first, _ = r.generate(`{}`, "Idempotency-Key", "op-3")
	second := r.ok("POST", "/key/block", `{"key":"`+first+`"}`, "Idempotency-Key", "op-3")
	third := r.ok("POST", "/key/unblock", `{"key":"`+first+`"}`, "Idempotency-Key", "op-3")
	if second["blocked"] != true || third["blocked"] != false {
		t.Errorf("one Idempotency-Key for different routes: %v, %v", second["blocked"], third["blocked"])
	}
	for path, body := range map[string]string{"/key/block": `{"key":"sk-another-key-1"}`, "/key/unblock": `{"key":"sk-another-key-1"}`} {
		if p := r.send("POST", path, body, "Idempotency-Key", "op-3"); p.status != 409 {
			t.Errorf("%s of another key with the same Idempotency-Key: %d %s", path, p.status, p.body)
		}
	}
	for _, bad := range []string{strings.Repeat("x", 256), "a b", "ü"} {
		if p := r.send("POST", "/key/generate", `{}`, "Idempotency-Key", bad); p.status != 400 {
			t.Errorf("Idempotency-Key %.10q: %d", bad, p.status)
		}
	}
}

func TestARepeatedWriteNeverConfirmsSomethingElse(t *testing.T) {
	r := newRig(t)
	one, _ := r.generate(`{"key_alias":"one"}`)
	two, _ := r.generate(`{"key_alias":"two"}`)
	op := []string{"Idempotency-Key", "op-1"}
	for _, id := range []string{"t1", "t2"} {
		r.ok("POST", "/team/new", `{"team_id":"`+id+`"}`)
	}
	r.ok("POST", "/key/delete", `{"keys":["`+one+`"]}`, op...)
	r.ok("POST", "/team/delete", `{"team_ids":["t1"]}`, op...)
	r.ok("POST", "/team/new", `{"team_id":"t3"}`, op...)
	r.ok("POST", "/key/delete", `{"keys":["`+one+`"]}`, op...)
	r.ok("POST", "/team/delete", `{"team_ids":["t1"]}`, op...)
	r.ok("POST", "/team/new", `{"team_id":"t3"}`, op...)
	for _, other := range [][2]string{
		{"/key/delete", `{"keys":["` + two + `"]}`}, {"/key/delete", `{"keys":["` + one + `","` + two + `"]}`}, {"/key/delete", `{"key_aliases":["two"]}`},
		{"/team/delete", `{"team_ids":["t2"]}`}, {"/team/delete", `{"team_ids":["t1","t2"]}`}, {"/team/new", `{"team_id":"t4"}`},
	} {
		if p := r.send("POST", other[0], other[1], op...); p.status != 409 {
			t.Errorf("%s %s: %d %s", other[0], other[1], p.status, p.body)
		}
	}
	if v := r.state.View(); v.KeyCount() != 1 || v.TeamCount() != 2 {
		t.Errorf("%d keys, %d teams", v.KeyCount(), v.TeamCount())
	}
}

func TestARepeatedWriteOfConfigurationHappensOnce(t *testing.T) {
	r := newRig(t)
	config := `{"config":{"models":[{"name":"m","deployments":[{"provider":"mock"}]}]}}`
	for _, write := range [][2]string{
		{"/priority/set", `{"priority":"x","share":0.1}`}, {"/priority/unset", `{"priority":"x"}`}, {"/config", config}, {"/config/rollback", `{"version":1}`},
	} {
		first := r.ok("POST", write[0], write[1], "Idempotency-Key", "op-1")
		r.ok("POST", "/priority/set", fmt.Sprintf(`{"priority":"y","share":0.%v}`, first["version"])) // something between
		again := r.ok("POST", write[0], write[1], "Idempotency-Key", "op-1")
		if first["version"] != again["version"] || first["status"] != again["status"] {
			t.Errorf("%s: %v, then %v", write[0], first, again)
		}
	}
}

func TestALostLeaderIsAnsweredWithWhatToDo(t *testing.T) {
	r := newRig(t)
	r.log.Fail(admintest.Fault{Err: errNoLeader})
	p := r.send("POST", "/key/generate", `{}`)
	if message, _, _, _ := p.errorOf(t); p.status != 503 || p.header.Get("Retry-After") != "1" || !strings.Contains(message, "no leader") {
		t.Errorf("%d %v %s", p.status, p.header, p.body)
	}
	r.log.Fail(admintest.Fault{Err: fmt.Errorf("apply: %w", errUnknown), Applied: true})
	p = r.send("POST", "/key/generate", `{"key_alias":"a"}`, "Idempotency-Key", "op-1")
	if message, kind, _, _ := p.errorOf(t); p.status != 503 || kind != "outcome_unknown" || !strings.Contains(message, "outcome unknown") || !strings.Contains(message, "Idempotency-Key") {
		t.Errorf("%d %s", p.status, p.body)
	}
	secret, _ := r.generate(`{"key_alias":"a"}`, "Idempotency-Key", "op-1")
	if _, ok := r.state.View().Key(hash(secret)); !ok || r.state.View().KeyCount() != 1 {
		t.Errorf("%d keys after the repetition", r.state.View().KeyCount())
	}
	del := `{"key_aliases":["a"]}`
	r.log.Fail(admintest.Fault{Err: errUnknown, Applied: true})
	if p := r.send("POST", "/key/delete", del, "Idempotency-Key", "op-2"); p.status != 503 {
		t.Errorf("%d %s", p.status, p.body)
	}
	if p := r.send("POST", "/key/delete", del, "Idempotency-Key", "op-2"); p.status != 200 {
		t.Errorf("repeated delete: %d %s", p.status, p.body)
	}
}

func TestOneOfManyParallelCreationsGetsTheAlias(t *testing.T) {
	r := newRig(t)
	var created, refused atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			switch p := r.raw("POST", "/key/generate", masterKey, `{"key_alias":"x"}`); p.status {
			case 200:
				created.Add(1)
			case 409:
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if created.Load() != 1 || refused.Load() != 99 || r.state.View().KeyCount() != 1 {
		t.Errorf("%d created, %d refused, %d keys", created.Load(), refused.Load(), r.state.View().KeyCount())
	}
}
