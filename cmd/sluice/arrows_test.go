package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// imports returns our packages that pkg depends on, directly or not, itself left out.
func imports(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
	if err != nil {
		t.Fatalf("go list -deps %s: %v\n%s", pkg, err, out)
	}
	var ours []string
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		if strings.HasPrefix(dep, "sluice/") && dep != pkg {
			ours = append(ours, dep)
		}
	}
	return ours
}

func TestArrowsBetweenPackages(t *testing.T) {
	for _, c := range []struct {
		pkg string
		may []string // and what lies below the package itself
	}{
		{"sluice/limiter", nil},
		{"sluice/fsm", []string{"sluice/limiter"}},
		{"sluice/node", nil},
		{"sluice/proxy", []string{"sluice/limiter", "sluice/fsm"}},
		{"sluice/proxy/translate", nil},
		{"sluice/admin", []string{"sluice/fsm", "sluice/limiter"}},
		{"sluice/cmd/sluice/config", []string{"sluice/fsm", "sluice/limiter"}},
		{"sluice/cmd/sluice/admincli", []string{"sluice/admin", "sluice/fsm", "sluice/limiter"}},
	} {
		t.Run(c.pkg, func(t *testing.T) {
			for _, dep := range imports(t, c.pkg) {
				if !slices.Contains(c.may, dep) && !strings.HasPrefix(dep, c.pkg+"/") {
					t.Errorf("%s must not depend on %s", c.pkg, dep)
				}
			}
		})
	}
}

// What decides must not be able to look at a clock of its own, at HTTP or at a
// disk, and what moves bytes must not know the HTTP of the data plane.
func TestDecisionsDependOnNoInputOutput(t *testing.T) {
	for _, pkg := range []string{"sluice/limiter", "sluice/proxy/translate"} {
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, out)
		}
		deps := strings.Fields(string(out))
		for _, forbidden := range []string{"net", "net/http", "github.com/hashicorp/raft", "go.etcd.io/bbolt", "math/rand", "math/rand/v2"} {
			if slices.Contains(deps, forbidden) {
				t.Errorf("%s depends on %s", pkg, forbidden)
			}
		}
	}
}

func TestTheTopLevelStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "sluice/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for pkg := range strings.Lines(string(out)) {
		top := strings.SplitN(strings.TrimSpace(pkg), "/", 3)[1]
		if !slices.Contains([]string{"cmd", "node", "fsm", "limiter", "proxy", "admin", "examples"}, top) {
			t.Errorf("%s is not below one of the packages of the design", strings.TrimSpace(pkg))
		}
	}
}
