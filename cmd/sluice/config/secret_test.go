package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretsAreNeverEchoed(t *testing.T) {
	const s = "sk-live-0123456789"
	for name, doc := range map[string]string{
		"literal provider key":  base + "[[models]]\nname = \"m\"\nprovider = \"openai\"\napi_key = \"" + s + "\"\n",
		"literal master key":    "[gateway]\nmaster_key = \"" + s + "\"\n",
		"literal secret":        base + "[cluster]\nsecret = \"" + s + "\"\n",
		"placeholder":           "[gateway]\nmaster_key = \"${" + s + "}\"\n",
		"unquoted":              "[gateway]\nmaster_key = " + s + "\n",
		"bad escape":            "[gateway]\nmaster_key = \"\\" + s + "\"\n",
		"in a list":             "[gateway]\nmaster_key = [\"" + s + "\"]\n",
		"reference and a blank": "[gateway]\nmaster_key = \"os.environ/" + s + "\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, ps := Parse("f.toml", []byte(doc), Options{Lookup: environment(testVars)})
			if len(ps) == 0 {
				t.Fatal("not refused")
			}
			if strings.Contains(ps.Error(), s) || strings.Contains(ps.Error(), "live") {
				t.Errorf("the secret shows in %v", ps)
			}
		})
	}
	f := parse(t, base+"[cluster]\nsecret = \"os.environ/SECRET\"\n")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "settings", f.Node, "key", f.Node.Gateway.MasterKey)
	j, _ := json.Marshal(f.Node)
	for _, text := range []string{log.String(), string(j), fmt.Sprintf("%v %+v %#v %s %q %x", f.Node, f.Node, f.Node, f.Node.Gateway.MasterKey, f.Node.Cluster.Secret, f.Node.Gateway.MasterKey), f.Render()} {
		if strings.Contains(text, "sk-master") || strings.Contains(text, "cluster-secret") || strings.Contains(text, fmt.Sprintf("%x", "sk-master")) {
			t.Errorf("a secret shows in %s", text)
		}
	}
}

func TestRemoteReadsLeaveSecretsToTheNodes(t *testing.T) {
	doc := "[[models]]\nname = \"m\"\nprovider = \"openai\"\napi_base = \"https://example.com\"\napi_key = \"os.environ/NOPE\"\n[gateway]\nmaster_key = \"os.environ/NOPE\"\n"
	f, ps := Parse("f.toml", []byte(doc), Options{Lookup: environment(nil), Remote: true})
	if len(ps) > 0 || f.Cluster.Models[0].Deployments[0].APIKey != "os.environ/NOPE" {
		t.Errorf("got %+v, %v", f.Cluster, ps)
	}
}

func TestAFileOfOneNodeSaysNothingClusterWide(t *testing.T) {
	for doc, want := range map[string]bool{
		base: false, base + "window = \"30s\"\n": false, base + "[log]\nlevel = \"warn\"\n": false,
		base + "[[models]]\nname = \"m\"\nprovider = \"mock\"\n": true, base + "[limits]\non_no_quorum = \"deny\"\n": true,
	} {
		f := parse(t, doc)
		warned := len(f.Warnings) == 1 && strings.Contains(f.Warnings[0], "gateway.window is cluster-wide")
		if f.ClusterWide != want || warned != strings.Contains(doc, "window") {
			t.Errorf("%q: cluster-wide %v, warnings %q", doc, f.ClusterWide, f.Warnings)
		}
	}
}
