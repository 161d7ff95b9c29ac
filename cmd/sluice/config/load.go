package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/BurntSushi/toml"

	"sluice/fsm"
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// Lookup finds an environment variable, like os.LookupEnv.
type Lookup func(name string) (value string, ok bool)

// Options say how to read a file.
type Options struct {
	// Lookup finds what os.environ/NAME refers to. Default os.LookupEnv.
	Lookup Lookup
	// Remote: the file is read on another host than the nodes', as by
	// `sluice admin config apply`; the secrets it refers to are theirs.
	Remote bool
}

// File is one file as read: defaults filled in, references resolved.
type File struct {
	Name     string // "" for Default
	Node     Settings
	Cluster  fsm.Config
	Warnings []string
	// ClusterWide: the file says something cluster-wide. A node whose file does
	// not takes what the cluster has.
	ClusterWide bool

	lines      lines
	unreadable bool // it is not TOML
}

// Default returns what holds without any file.
func Default() *File {
	f, _ := Parse("", nil, Options{})
	return f
}

// Read reads the file at path. The File is usable only if there are no problems.
func Read(path string, o Options) (*File, Problems) {
	data, err := readFile(path)
	if err != nil {
		return nil, Problems{{File: path, Problem: err.Error(), Remedy: "name a TOML file that this user may read"}}
	}
	return Parse(path, data, o)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path is said already
		}
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxFile)
	}
	return data, nil
}

// Parse reads a document; name stands for it in problems. The File is usable
// only if there are no problems.
func Parse(name string, data []byte, o Options) (*File, Problems) {
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	r := &reader{file: name, lookup: o.Lookup, unresolved: o.Remote}
	f := &File{Name: name, Node: defaultSettings()}
	src := strings.TrimPrefix(string(data), "\ufeff")
	vals, src := r.decode(src)
	f.unreadable = vals == nil && len(r.problems) > 0
	r.lines = locate(src)
	f.lines = r.lines
	root := newTable(r, "", vals)
	r.readNode(root, &f.Node)
	f.Cluster = r.readCluster(root)
	f.ClusterWide = saysClusterWide(vals)
	root.close()
	r.validate(f)
	if !f.ClusterWide && r.lines["gateway.window"] > 0 {
		f.Warnings = append(f.Warnings, "gateway.window is cluster-wide; in a file without [[models]] it only counts where the cluster has no configuration yet")
	}
	return f, r.problems.sort()
}

// decode turns a document into maps. Of a key that is written twice it blanks
// the second line and goes on, so that the other problems of the file show up
// too; it returns the document as it was understood.
func (r *reader) decode(src string) (map[string]any, string) {
	for range 50 {
		vals, err := unmarshal(src)
		if err == nil {
			return vals, src
		}
		var pe toml.ParseError
		if !errors.As(err, &pe) {
			r.problems = append(r.problems, Problem{File: r.file, Problem: err.Error(), Remedy: "correct the file"})
			return nil, src
		}
		p := Problem{File: r.file, Line: pe.Position.Line, Key: pe.LastKey, Problem: "is not TOML: " + discreet(pe), Remedy: "correct the line"}
		repeated := strings.HasSuffix(pe.Message, "has already been defined.")
		if repeated {
			p.Problem, p.Remedy = "is written twice", "keep one"
			if p.Key == "" {
				p.Key = strings.Trim(strings.TrimSpace(lineText(src, p.Line)), "[]")
			}
		}
		r.problems = append(r.problems, p)
		rest, ok := blankLine(src, pe.Position.Line)
		if !repeated || !ok {
			return nil, src
		}
		src = rest
	}
	return nil, src
}

// unmarshal decodes without letting a fault of the decoder through as a panic.
func unmarshal(src string) (vals map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			vals, err = nil, fmt.Errorf("is not TOML: %v", p)
		}
	}()
	_, err = toml.Decode(src, &vals)
	return vals, err
}

// discreet returns the decoder's message, without what it quotes where that
// may be a secret.
func discreet(pe toml.ParseError) string {
	msg := strings.TrimSuffix(pe.Message, ".")
	last := strings.ToLower(pe.LastKey)
	if !strings.Contains(last, "key") && !strings.Contains(last, "secret") {
		return msg
	}
	if i := strings.IndexAny(msg, "\"'`"); i >= 0 {
		msg = strings.TrimRight(msg[:i], " ") + " …"
	}
	return msg
}

// lineText returns line n, counted from 1.
func lineText(src string, n int) string {
	all := strings.Split(src, "\n")
	if n < 1 || n > len(all) {
		return ""
	}
	return all[n-1]
}

// blankLine empties line n, counted from 1, if it is a key with its value.
func blankLine(src string, n int) (string, bool) {
	all := strings.SplitAfter(src, "\n")
	if n < 1 || n > len(all) {
		return src, false
	}
	text := strings.TrimSpace(all[n-1])
	if strings.HasPrefix(text, "[") || !strings.Contains(text, "=") {
		return src, false
	}
	all[n-1] = "\n"
	return strings.Join(all, ""), true
}
