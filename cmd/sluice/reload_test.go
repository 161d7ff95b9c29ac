package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// rewrite replaces a configuration file and asks the node to read it.
func (p *process) rewrite(path, text string) {
	p.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.signals <- syscall.SIGHUP
}

func TestReload(t *testing.T) {
	t.Parallel()
	path := configFile(t, "1s", "rpm = 2")
	p := serveTest(t, "--data-dir", t.TempDir(), "--config", path)
	key := p.newKey()
	for i, want := range []int{200, 200, 429} {
		if code, body := p.chat(key); code != want {
			t.Fatalf("request %d: %d %s", i+1, code, body)
		}
	}

	t.Log("a higher limit acts in the running window, which keeps its count")
	p.rewrite(path, fmt.Sprintf(configHead, "1s", "rpm = 3"))
	p.eventually(regexp.MustCompile(`status=applied version=(2)`))
	for i, want := range []int{200, 429} {
		if code, body := p.chat(key); code != want {
			t.Fatalf("request %d after the reload: %d %s", i+1, code, body)
		}
	}

	t.Log("a file with problems changes nothing and names them")
	p.rewrite(path, fmt.Sprintf(configHead, "1s", "rpm = -1\nrmp = 1"))
	p.eventually(regexp.MustCompile(`reload refused; the running configuration stays" problem="\S+sluice.toml:8: models\[0\].rpm: -1 is (negative)`))
	p.eventually(regexp.MustCompile(`sluice.toml:9: models\[0\].rmp: (unknown) key`))
	if code, body := p.chat(key); code != 429 {
		t.Errorf("the limit is gone: %d %s", code, body)
	}
	p.rewrite(path, "")
	p.eventually(regexp.MustCompile(`gateway.master_key: there is no (master) key`))

	t.Log("what held earlier is stale, and is not applied")
	p.rewrite(path, fmt.Sprintf(configHead, "1s", "rpm = 2"))
	p.eventually(regexp.MustCompile(`the file holds an (older) configuration and is not applied`))

	if n := strings.Count(p.stderr.String(), "msg=ready"); n != 1 {
		t.Errorf("it became ready %d times", n)
	}

	t.Log("settings of the node are named, because they need a restart")
	p.rewrite(path, fmt.Sprintf(configHead, "2s", "rpm = 5"))
	p.eventually(regexp.MustCompile(`take effect at its next start" settings=(\[gateway.drain\])`))
	p.eventually(regexp.MustCompile(`status=applied version=(3)`))
	if code, body := p.chat(key); code != 200 {
		t.Errorf("the new limit does not hold: %d %s", code, body)
	}
}

func TestExitCodesAndOneLine(t *testing.T) {
	good := configFile(t, "1s", "")
	bad := configFile(t, "soon", "rpm = \"many\"")
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string // on stdout
		errs string // on stderr
		rows int    // of stderr
	}{
		{"version", []string{"version"}, 0, "sluice " + version, "", 0},
		{"version as a flag", []string{"--version"}, 0, "sluice " + version + " go", "", 0},
		{"help", []string{"--help"}, 0, "serve", "", 0},
		{"help of a command", []string{"help", "admin", "limits"}, 0, "--watch", "", 0},
		{"help of no command", []string{"help", "sevre"}, 2, "", `unknown command "sevre"; see sluice --help`, 1},
		{"help of no subcommand", []string{"help", "admin", "key", "x"}, 2, "", `unknown command "x"; see sluice admin key --help`, 1},
		{"no command", nil, 2, "", "no command given", 1},
		{"unknown command", []string{"sevre"}, 2, "", `unknown command "sevre"`, 1},
		{"unknown subcommand", []string{"config", "chekc"}, 2, "", `unknown command "chekc"`, 1},
		{"unknown flag", []string{"serve", "--nope"}, 2, "", "unknown flag: --nope; see sluice serve --help", 1},
		{"unknown flag of the whole", []string{"--nope"}, 2, "", "unknown flag: --nope; see sluice --help", 1},
		{"apply a file of no effect", []string{"admin", "config", "apply", writeFile(t, "empty.toml", "[gateway]\n")}, 2, "", "empty.toml says nothing cluster-wide", 1},
		{"stray argument", []string{"serve", "x"}, 2, "", `unknown command "x" for "sluice serve"`, 1},
		{"missing argument", []string{"config", "check"}, 2, "", "FILE is missing", 1},
		{"check a good file", []string{"config", "check", good}, 0, `master_key = "os.environ/SLUICE_MASTER_KEY"`, "", 0},
		{"check a bad file", []string{"config", "check", bad}, 2, "", "sluice.toml:3: gateway.drain: ", 2},
		{"check no file", []string{"config", "check", filepath.Join(t.TempDir(), "x.toml")}, 2, "", "x.toml: no such file", 1},
		{"serve without a master key", []string{"serve"}, 2, "", "gateway.master_key: there is no master key", 1},
		{"serve a bad file", []string{"serve", "--config", bad}, 2, "", "sluice.toml:8: models[0].rpm: ", 2},
		{"admin without a key", []string{"admin", "key", "list"}, 0, "", "", 0},
		{"admin of nobody", []string{"admin", "--server", "http://127.0.0.1:1", "--timeout", "1s", "key", "list"}, 1, "", "sluice: ", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			vars := map[string]string{"SLUICE_MASTER_KEY": testKey}
			if c.name == "admin without a key" {
				vars, c.code, c.errs, c.rows = nil, 2, "no master key", 1
			}
			var out, errs bytes.Buffer
			code := run(t.Context(), c.args, environ{stdout: &out, stderr: &errs, lookup: variables(vars), signals: noSignals})
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) || strings.Count(errs.String(), "\n") != c.rows {
				t.Errorf("code %d, stdout %q, stderr %q", code, out.String(), errs.String())
			}
			if strings.Contains(out.String()+errs.String(), testKey) {
				t.Error("the master key shows")
			}
		})
	}
}

func noSignals() (<-chan os.Signal, func()) { return nil, func() {} }

func TestAPortInUseIsNamed(t *testing.T) {
	t.Parallel()
	p := serveTest(t, "--data-dir", t.TempDir(), "--config", configFile(t, "1s", ""))
	for _, c := range []struct{ flag, addr, want string }{
		{"--listen", strings.TrimPrefix(p.url, "http://"), "gateway.listen: "},
		{"--cluster-listen", p.eventually(regexp.MustCompile(`msg=serving .*cluster=(\S+)`)), "cluster.listen: "},
	} {
		second := launch(t, "--data-dir", t.TempDir(), "--config", configFile(t, "1s", ""), c.flag, c.addr)
		if code := second.exit(); code != 1 {
			t.Errorf("%s: exit code %d", c.flag, code)
		}
		if out := second.stderr.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, c.want) || !strings.Contains(out, "address already in use") {
			t.Errorf("%s: it said %s", c.flag, out)
		}
	}
}
