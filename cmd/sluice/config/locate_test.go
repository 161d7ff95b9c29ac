package config

import (
	"maps"
	"strings"
	"testing"

	"sluice/fsm"
)

func TestLocateFindsTheLineOfEveryKey(t *testing.T) {
	const doc = `# comment [not.a.table]
top = 1
[gateway] # another
listen = "a#b"   # [x]
'quo ted' . "esc\u0061ped" = 1

[[models]]
name = '''
multi
[[models]]
'''
  [[models.deployments]]
  id = "a"
  [[models.deployments]]
  id = "b"
[[models]]
name = """x\"""" # done
deployments = [
  {id = "c", model = "m"},   # first
  {id = "d",
   weight = 1},
]
[[models.extra]]
[models.extra.sub]
k = [1, [2,
  3]]
[priority_reservation]
"my prod" = {type = "rpm", value = 1}
a.b.c = true
`
	want := map[string]int{
		"top":                                  1,
		"gateway":                              2,
		"gateway.listen":                       3,
		`gateway."quo ted"`:                    4,
		`gateway."quo ted".escaped`:            4,
		"models":                               6,
		"models[0]":                            6,
		"models[0].name":                       7,
		"models[0].deployments":                11,
		"models[0].deployments[0]":             11,
		"models[0].deployments[0].id":          12,
		"models[0].deployments[1]":             13,
		"models[0].deployments[1].id":          14,
		"models[1]":                            15,
		"models[1].name":                       16,
		"models[1].deployments":                17,
		"models[1].deployments[0]":             18,
		"models[1].deployments[0].id":          18,
		"models[1].deployments[0].model":       18,
		"models[1].deployments[1]":             19,
		"models[1].deployments[1].id":          19,
		"models[1].deployments[1].weight":      20,
		"models[1].extra":                      22,
		"models[1].extra[0]":                   22,
		"models[1].extra[0].sub":               23,
		"models[1].extra[0].sub.k":             24,
		"models[1].extra[0].sub.k[0]":          24,
		"models[1].extra[0].sub.k[1]":          24,
		"models[1].extra[0].sub.k[1][0]":       24,
		"models[1].extra[0].sub.k[1][1]":       25,
		"priority_reservation":                 26,
		`priority_reservation."my prod"`:       27,
		`priority_reservation."my prod".type`:  27,
		`priority_reservation."my prod".value`: 27,
		"priority_reservation.a":               28,
		"priority_reservation.a.b":             28,
		"priority_reservation.a.b.c":           28,
	}
	for name, src := range map[string]string{"LF": doc, "CRLF": strings.ReplaceAll(doc, "\n", "\r\n")} {
		t.Run(name, func(t *testing.T) {
			got := locate(src)
			for path, line := range want {
				if got[path] != line+1 { // the table counts from 0
					t.Errorf("%s: line %d, want %d", path, got[path], line+1)
				}
			}
			for path := range maps.Keys(got) {
				if _, ok := want[path]; !ok {
					t.Errorf("found %q, which is not there", path)
				}
			}
		})
	}
}

func TestLinesFallBackToWhatIsAround(t *testing.T) {
	l := locate("[[models]]\nname = \"m\"\n[[models.deployments]]\nid = \"a\"\n")
	for path, want := range map[string]int{
		"models[0].name": 2, "models[0].tpm": 1, "models[0].deployments[0].weight": 3, "models[7].rpm": 1, "nowhere.at.all": 0, `"]["`: 0,
	} {
		if got := l.of(path); got != want {
			t.Errorf("%s: line %d, want %d", path, got, want)
		}
	}
}

func TestNamesOfTheStateMachineAreFoundInTheFile(t *testing.T) {
	r := &reader{lines: locate("[[models]]\nname='a.b'\nprovider='x'\n[[models]]\nname='a'\n[[models.deployments]]\n[[models.deployments]]\n[[models]]\nname='a'\n")}
	c := fsm.Config{Models: []fsm.Model{
		{Name: "a.b", Deployments: []fsm.Deployment{{ID: "a.b"}}},
		{Name: "a", Deployments: []fsm.Deployment{{ID: "x"}, {ID: "x.1"}}},
		{Name: "a"},
	}}
	for path, want := range map[string]string{
		"models.a.b.rpm":                      "models[0].rpm",
		"models.a.b.deployments.a.b.provider": "models[0].provider",
		"models[0].deployments[0].provider":   "models[0].provider",
		"models[1].deployments.x.1.weight":    "models[1].deployments[1].weight",
		"models[1].deployments.x.id":          "models[1].deployments[0].id",
		"models.a.name":                       "models[2].name",
		"models.zzz.name":                     "models.zzz.name",
		"aliases.x y":                         `aliases."x y"`,
		"priority_reservation.p.q":            `priority_reservation."p.q"`,
		"limits.on_no_quorum":                 "limits.on_no_quorum",
	} {
		if got := r.inFile(path, &c); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func FuzzLocate(f *testing.F) {
	for _, s := range []string{
		"", "a", "a=", "[", "[[", "[a", "[[a]]\nb={c=[{d=1}]}", "a='''\n'''", `a="\`, "a=[[[", "a={", "\"\\u0041\".'x y'=1\n",
		"a = \"\"\"x\\\n  y\"\"\"\"\"\nb = ''''a'''\n", "[a]\nb.c=1\n[a.d]\n[[a.e]]\n[[a.e]]\nx=1_000.5e3\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		found := locate(src)
		vals, err := unmarshal(src)
		if err != nil || strings.HasPrefix(src, "\xff\xfe") || strings.HasPrefix(src, "\xfe\xff") || strings.HasPrefix(src, "\ufeff") {
			return // only documents that the decoder takes have to be understood
		}
		total := strings.Count(src, "\n") + 1
		walk("", vals, func(path string) {
			if n := found[path]; len(path) < maxPath && (n < 1 || n > total) {
				t.Errorf("%q stands on line %d of %d, in\n%s", path, n, total, src)
			}
		})
	})
}

func TestManyBracketsTakeNoTime(t *testing.T) {
	const deep = 100_000 // took minutes when every level had a path of its own
	if found := locate("x = " + strings.Repeat("[", deep) + strings.Repeat("]", deep) + "\ny = 1\n"); found["x"] != 1 || found["y"] != 2 {
		t.Errorf("x is on line %d, y on line %d", found["x"], found["y"])
	}
	if n := len(locate(strings.Repeat("a.", deep) + "a = 1\n")); n > maxPath {
		t.Errorf("%d paths are remembered", n)
	}
}

// walk calls f with the path of everything in v.
func walk(path string, v any, f func(path string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			f(join(path, k))
			walk(join(path, k), e, f)
		}
	case []map[string]any:
		for i, e := range v {
			f(index(path, i))
			walk(index(path, i), e, f)
		}
	case []any:
		for i, e := range v {
			f(index(path, i))
			walk(index(path, i), e, f)
		}
	}
}
