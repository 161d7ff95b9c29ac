package config

import (
	"fmt"
	"strings"

	"sluice/fsm"
)

// validate normalizes the cluster-wide half and takes over what the state
// machine would refuse, with the lines of the file.
func (r *reader) validate(f *File) {
	f.Cluster = f.Cluster.Normalize()
	found := f.Cluster.Validate()
	wrong := make(map[string]bool, len(found))
	for _, e := range found {
		wrong[r.inFile(e.Path, &f.Cluster)] = true
	}
	for _, e := range found {
		path, msg := r.inFile(e.Path, &f.Cluster), e.Msg
		if at, ok := strings.CutSuffix(path, ".id"); ok && r.lines[path] == 0 && wrong[at+".name"] {
			continue // taken from the model's name, which is wrong itself: said there
		}
		for name := range f.Cluster.Reservation.Shares {
			// This one is said of all shares, and names the one it means.
			if rest, ok := strings.CutPrefix(msg, "priority_reservation."+name+" "); ok {
				path, msg = join("priority_reservation", name), rest
			}
		}
		r.problem(path, msg, e.Remedy)
	}
	if len(found) == 0 {
		if c, err := fsm.Compile(f.Cluster); err == nil {
			f.Warnings = c.Warnings
		}
	}
}

// inFile turns a path of the state machine, which calls models and
// deployments by their names ("models.gpt-5.6.deployments.a.rpm"), into the
// path that the file has ("models[0].deployments[1].rpm", or "models[0].rpm" for
// a deployment that is written inline).
func (r *reader) inFile(path string, c *fsm.Config) string {
	for _, table := range []string{"aliases", "priority_reservation"} {
		if name, ok := strings.CutPrefix(path, table+"."); ok {
			return join(table, name)
		}
	}
	at, rest, ok := element(path, "models", len(c.Models), func(i int) string { return c.Models[i].Name })
	if !ok {
		return path
	}
	model := index("models", at)
	deployments := c.Models[at].Deployments
	n, field, ok := element(rest, ".deployments", len(deployments), func(i int) string { return deployments[i].ID })
	switch {
	case !ok:
		return model + rest
	case r.lines[model+".deployments"] == 0:
		return model + field
	}
	return index(model+".deployments", n) + field
}

// element cuts the element of a list off the front of path, whether it is
// written LIST[1] or LIST.NAME. Of several that fit it takes the longest name
// and of equal names the last, which is the one too many.
func element(path, list string, n int, name func(int) string) (at int, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, list)
	if !ok {
		return 0, "", false
	}
	best := -1
	for i := range n {
		for _, front := range []string{fmt.Sprintf("[%d]", i), "." + name(i)} {
			after, ok := strings.CutPrefix(path, front)
			if ok && len(front) >= best && (after == "" || after[0] == '.' || after[0] == '[') {
				best, at, rest = len(front), i, after
			}
		}
	}
	return at, rest, best >= 0
}
