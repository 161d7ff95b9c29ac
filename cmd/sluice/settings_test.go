package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"sluice/cmd/sluice/config"
)

// variables is a lookup over a map.
func variables(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

// writeFile writes a file into a directory of the test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func loadFlags(t *testing.T, vars map[string]string, args ...string) (*config.File, config.Problems) {
	t.Helper()
	var s serveFlags
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.addTo(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s.load(variables(vars))
}

const fileWithAll = `
[gateway]
listen = "127.0.0.1:1"
data_dir = "from-file"
master_key = "os.environ/KEY"
[cluster]
node_id = "file"
listen = "127.0.0.1:2"
advertise = "127.0.0.1:3"
join = ["127.0.0.1:4"]
bootstrap_expect = 2
`

func TestFlagsBeatTheFile(t *testing.T) {
	path := writeFile(t, "a.toml", fileWithAll)
	vars := map[string]string{"KEY": "sk-1", "SLUICE_CONFIG": "/does/not/exist"}
	f, ps := loadFlags(t, vars, "--config", path, "--node-id", "flag", "--data-dir", "d", "--listen", "127.0.0.1:11",
		"--cluster-listen", "127.0.0.1:12", "--cluster-advertise", "127.0.0.1:13", "--join", "127.0.0.1:14,127.0.0.1:15", "--bootstrap-expect", "3", "--voter=false")
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	g, c := f.Node.Gateway, f.Node.Cluster
	if c.NodeID != "flag" || g.DataDir != "d" || g.Listen != "127.0.0.1:11" || c.Listen != "127.0.0.1:12" ||
		c.Advertise != "127.0.0.1:13" || strings.Join(c.Join, " ") != "127.0.0.1:14 127.0.0.1:15" || c.BootstrapExpect != 3 || !c.NonVoter {
		t.Errorf("settings are %+v %+v", g, c)
	}
}

func TestTheFileHoldsWhereNoFlagIsGiven(t *testing.T) {
	vars := map[string]string{"KEY": "sk-1", "SLUICE_CONFIG": writeFile(t, "a.toml", fileWithAll)}
	f, ps := loadFlags(t, vars)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if g, c := f.Node.Gateway, f.Node.Cluster; c.NodeID != "file" || g.DataDir != "from-file" || c.BootstrapExpect != 2 || len(c.Join) != 1 {
		t.Errorf("settings are %+v %+v", g, c)
	}
}

func TestRefusedStartsNameTheSetting(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no master key", nil, "gateway.master_key: there is no master key"},
		{"open cluster port", []string{"--dev", "--cluster-listen", "0.0.0.0:4100"}, "cluster.secret: cluster.listen is 0.0.0.0:4100"},
		{"open advertised address", []string{"--dev", "--cluster-advertise", "node1:4100"}, "cluster.secret: cluster.advertise is node1:4100"},
		{"no such file", []string{"--config", "/does/not/exist.toml"}, "/does/not/exist.toml: no such file"},
		{"not an address", []string{"--dev", "--listen", "4000"}, `gateway.listen: "4000" is not an address`},
		{"nobody to expect", []string{"--dev", "--bootstrap-expect", "0"}, "--bootstrap-expect: 0 is out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, ps := loadFlags(t, nil, c.args...); !strings.Contains(ps.Error(), c.want) {
				t.Errorf("problems are %q, want %q", ps.Error(), c.want)
			}
		})
	}
}

func TestDevNeedsNothing(t *testing.T) {
	f, ps := loadFlags(t, nil, "--dev")
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if key := f.Node.Gateway.MasterKey.Reveal(); !strings.HasPrefix(key, "sk-") || len(key) < 20 {
		t.Errorf("the generated master key has %d characters", len(key))
	}
	if f.Node.Gateway.DataDir != "" || len(f.Cluster.Models) != 1 || len(f.Cluster.Validate()) > 0 {
		t.Errorf("settings are %+v, %+v", f.Node, f.Cluster)
	}
}

func TestAFlagThatIsEmptyMeansNoDefault(t *testing.T) {
	for _, flag := range []string{"node-id", "data-dir", "listen", "cluster-listen", "cluster-advertise", "join"} {
		for _, value := range []string{"", " "} {
			_, ps := loadFlags(t, nil, "--dev", "--"+flag, value)
			if !strings.Contains(ps.Error(), "--"+flag+": is empty; give it a value") {
				t.Errorf("--%s %q: problems are %q", flag, value, ps.Error())
			}
		}
	}
	f, ps := loadFlags(t, nil, "--dev", "--join", "127.0.0.1:1, 127.0.0.1:2")
	if len(ps) > 0 || strings.Join(f.Node.Cluster.Join, "|") != "127.0.0.1:1|127.0.0.1:2" {
		t.Errorf("%q, %v", f.Node.Cluster.Join, ps)
	}
}
