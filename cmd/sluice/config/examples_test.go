package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sluice/fsm"
)

func TestEveryExampleLoads(t *testing.T) {
	root := filepath.Join("..", "..", "..", "examples")
	vars := environment(map[string]string{
		"SLUICE_MASTER_KEY": "sk-1234", "SLUICE_CLUSTER_SECRET": "a-long-random-text-like-this-one", "OPENAI_API_KEY": "k", "AZURE_API_KEY": "k", "ANTHROPIC_API_KEY": "k",
	})
	var nodes []fsm.Config
	found := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".toml" {
			return err
		}
		found++
		f, ps := Read(path, Options{Lookup: vars})
		if f != nil {
			ps = append(ps, f.Check()...)
		}
		for _, p := range ps {
			t.Error(p)
		}
		if f != nil && filepath.Base(filepath.Dir(path)) == "cluster" {
			nodes = append(nodes, f.Cluster)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 6 || len(nodes) != 3 {
		t.Fatalf("found %d examples, %d of them of the cluster", found, len(nodes))
	}
	for _, c := range nodes[1:] {
		if !reflect.DeepEqual(c, nodes[0]) {
			t.Error("the nodes of the cluster example disagree about what is replicated")
		}
	}
}

func TestTheQuickStartNeedsOneVariableOnly(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "quickstart.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, ps := Parse("quickstart.toml", data, Options{Lookup: environment(map[string]string{"SLUICE_MASTER_KEY": "sk-1234"})})
	if len(ps) > 0 {
		t.Error(ps)
	}
}
