package fsm

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"sluice/limiter"
)

// update rewrites the golden files. Once a version is released they must never
// change: a new format gets files of its own.
var update = flag.Bool("update", false, "rewrite the golden files")

// goldenLog makes one entry of every kind.
func goldenLog(t testing.TB) *rig {
	t.Helper()
	r := newRig(t)
	ctx := t.Context()
	cfg := testConfig(mockModel("a", 10, 1000), Model{Name: "openai/*", PerName: true, Deployments: []Deployment{
		{ID: "o", Provider: ProviderOpenAI, APIKey: "os.environ/OPENAI_API_KEY", RPM: limiter.Of(5)},
	}})
	cfg.Aliases = map[string]string{"fast": "a"}
	k := testKey("a")
	k.Alias, k.TeamID, k.RPM, k.ModelTPM = "café", "red", limiter.Of(5), map[string]limiter.Limit{"fast": limiter.Of(50)}
	k.Metadata, k.Extra = map[string]any{"priority": "prod"}, map[string]json.RawMessage{"max_budget": json.RawMessage("0.10")}
	k.Expires = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	once := WriteOptions{IdempotencyKey: "once"}
	var gate *gateNode
	for i, step := range []func() error{
		func() error { _, err := r.ProposeConfig(ctx, cfg, "file"); return err },
		func() error {
			_, err := r.ApplyConfig(ctx, testConfig(mockModel("a", 20, 1000)), "cli", WriteOptions{})
			return err
		},
		func() error { _, err := r.RollbackConfig(ctx, 1, WriteOptions{}); return err },
		func() error {
			_, err := r.SetShare(ctx, "prod", limiter.Share{Kind: limiter.SharePercent, Value: 0.9}, WriteOptions{})
			return err
		},
		func() error {
			_, err := r.CreateTeam(ctx, Team{ID: "red", MaxParallel: limiter.Of(3)}, once)
			return err
		},
		func() error { _, err := r.CreateTeam(ctx, Team{ID: "blue"}, WriteOptions{}); return err },
		func() error {
			_, err := r.UpdateTeam(ctx, "red", Patch{"blocked": []byte("false")}, WriteOptions{})
			return err
		},
		func() error { _, err := r.DeleteTeams(ctx, []string{"blue"}, WriteOptions{}); return err },
		func() error { _, err := r.CreateKey(ctx, k, WriteOptions{IdempotencyKey: "key"}); return err },
		func() error { _, err := r.CreateKey(ctx, testKey("b"), WriteOptions{}); return err },
		func() error {
			_, err := r.UpdateKey(ctx, id("a"), Patch{"tpm_limit": []byte("7")}, WriteOptions{})
			return err
		},
		func() error {
			_, err := r.RegenerateKey(ctx, id("a"), id("c"), "sk-...c", Patch{"rpm_limit": []byte("9")}, WriteOptions{})
			return err
		},
		func() error { _, err := r.DeleteKeys(ctx, []string{id("b")}, WriteOptions{}); return err },
		func() error { gate = newGateNode(t, r, "n1"); return nil },
		func() error {
			gate.admit(t, limiter.Ticket{Model: "a", Key: id("c"), Team: "red", Priority: "prod"})
			return nil
		},
		func() error {
			ticket := limiter.Ticket{Model: "a", Key: id("c"), Team: "red", Priority: "prod"}
			gate.send(t, []limiter.Settle{{Ticket: ticket, Pool: "prod", Count: 1, Usage: limiter.Usage{Input: 10, Output: 20}}}, ticket)
			return nil
		},
		func() error {
			_, _, err := r.log.Apply(ctx, command{kind: 200, ignorable: true, payload: []byte("later")}.encode())
			return err
		},
		func() error { return r.SetSilent(ctx, "n1", gate.batch.Epoch, true) },
	} {
		r.time.pass(time.Second)
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	return r
}

// logText writes a log one entry a line, so that a difference can be read.
func logText(entries []*raft.Log) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%d %+q\n", e.Index, e.Data)
	}
	return b.Bytes()
}

func parseLog(t testing.TB, b []byte) []*raft.Log {
	t.Helper()
	var entries []*raft.Log
	for line := range strings.Lines(string(b)) {
		e := &raft.Log{}
		if _, err := fmt.Sscanf(line, "%d %q\n", &e.Index, &e.Data); err != nil {
			t.Fatalf("golden log: %v", err)
		}
		entries = append(entries, e)
	}
	return entries
}

func golden(t testing.TB, name string, now []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryCommandIsWrittenAsVersion1WroteIt(t *testing.T) {
	got := logText(goldenLog(t).log.entries)
	if want := golden(t, "log.v1", got); !bytes.Equal(got, want) {
		t.Errorf("the log's format changed; nodes of two versions would not understand each other\n got %s\nwant %s", got, want)
	}
	kinds := map[commandType]bool{}
	for _, e := range parseLog(t, got) {
		entry, err := decodeEntry(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		kinds[entry.cmd.kind] = true
	}
	for kind := cmdRegister; kind <= cmdSetSilent; kind++ {
		if !kinds[kind] {
			t.Errorf("command type %d is not in the golden log", kind)
		}
	}
}

func TestLogOfVersion1LeadsToTheSameSnapshotAsItDidThen(t *testing.T) {
	r := goldenLog(t)
	now := takeSnapshot(t, r.s)
	want := golden(t, "snapshot.v1", now)
	s := replay(t, parseLog(t, golden(t, "log.v1", logText(r.log.entries))))
	if got := takeSnapshot(t, s); !bytes.Equal(got, want) {
		t.Errorf("the log of version 1 leads elsewhere\n got %q\nwant %q", got, want)
	}
	restored := openState(t, newTestTime().options())
	if err := restore(restored, want); err != nil {
		t.Fatalf("a snapshot of version 1 is not read: %v", err)
	}
	wantSameDigest(t, restored, s)
}

// goldenRestore makes the log of a restore into a cluster that is a second old.
// The backup has one part, so the snapshot before the last entry has it staged.
func goldenRestore(t testing.TB) *rig {
	t.Helper()
	r := fresh(t)
	r.time.pass(time.Second)
	if _, err := r.Restore(t.Context(), parse(t, backupOf(t, goldenLog(t).s)), WriteOptions{IdempotencyKey: "once"}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCommandsOfLevel2AreWrittenAsTheyWereFirst(t *testing.T) {
	r := goldenRestore(t)
	want := golden(t, "log.v2", logText(r.log.entries))
	if got := logText(r.log.entries); !bytes.Equal(got, want) {
		t.Errorf("the log's format changed; nodes of two versions would not understand each other\n got %s\nwant %s", got, want)
	}
	entries := parseLog(t, want)
	kinds := map[commandType]bool{}
	for _, e := range entries {
		entry, err := decodeEntry(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		kinds[entry.cmd.kind] = true
	}
	for kind := cmdBeginRestore; kind <= cmdCommitRestore; kind++ {
		if !kinds[kind] {
			t.Errorf("command type %d is not in the golden log", kind)
		}
	}
	half := entries[:len(entries)-1]
	staged := golden(t, "snapshot.v2", takeSnapshot(t, replay(t, half)))
	if got := takeSnapshot(t, replay(t, half)); !bytes.Equal(got, staged) {
		t.Errorf("the log of level 2 leads elsewhere\n got %q\nwant %q", got, staged)
	}
	restored := openState(t, newTestTime().options())
	if err := restore(restored, staged); err != nil {
		t.Fatalf("a snapshot of format 2 is not read: %v", err)
	}
	feed(restored, entries[len(half):])
	wantSameDigest(t, restored, r.s)
}

func TestFirstBackupIsStillRestored(t *testing.T) {
	b := golden(t, "backup.v1", backupOf(t, goldenLog(t).s))
	r := fresh(t)
	res, err := r.Restore(t.Context(), parse(t, b), WriteOptions{})
	if err != nil || res.Keys != 1 || res.Teams != 1 || res.ConfigVersion != 4 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestNothingNewerIsWrittenThanTheContentNeeds(t *testing.T) {
	if got := takeSnapshot(t, goldenRestore(t).s); !bytes.Contains(got, []byte(`{"format":1,`)) {
		t.Error("after a restore, members of the first version could not read a snapshot any more")
	}
}
