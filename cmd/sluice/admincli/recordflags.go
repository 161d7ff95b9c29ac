package admincli

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/admin"
)

// none is what a flag says to clear what an update finds.
const none = "none"

// limitFlag is a whole number from 0, or none.
type limitFlag struct{ n *int64 }

var _ pflag.Value = (*limitFlag)(nil)

func (l *limitFlag) Set(s string) error {
	if s == none || s == "null" {
		l.n = nil
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return usagef("use a whole number from 0 (0 blocks), or none for no limit")
	}
	l.n = &n
	return nil
}

func (l *limitFlag) String() string {
	if l.n == nil {
		return ""
	}
	return strconv.FormatInt(*l.n, 10)
}

func (l *limitFlag) Type() string { return "N|none" }

// recordOptions are the flags that keys and teams share.
type recordOptions struct {
	priority, alias  string
	models, metadata []string
	modelRPM         []string
	modelTPM         []string
	rpm, tpm         limitFlag
	maxParallel      limitFlag
}

func (o *recordOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.alias, "alias", "", "name for people; a key's alias is unique")
	f.StringVar(&o.priority, "priority", "", "priority that its requests claim, or none")
	f.StringSliceVar(&o.models, "models", nil, "models it may use, comma separated, or none for all of them")
	f.Var(&o.rpm, "rpm", "requests per window")
	f.Var(&o.tpm, "tpm", "tokens per window")
	f.Var(&o.maxParallel, "max-parallel", "requests in flight over all nodes")
	f.StringArrayVar(&o.modelRPM, "model-rpm", nil, "MODEL=N, requests per window on one model; repeatable, replaces all")
	f.StringArrayVar(&o.modelTPM, "model-tpm", nil, "MODEL=N, tokens per window on one model; repeatable, replaces all")
	f.StringArrayVar(&o.metadata, "metadata", nil, "NAME=VALUE to remember; repeatable")
}

// fields returns what the flags say that were given. aliasField is key_alias or
// team_alias.
func (o *recordOptions) fields(f *pflag.FlagSet, aliasField string) (admin.Fields, error) {
	out := admin.Fields{}
	if f.Changed("alias") {
		out[aliasField] = nullable(o.alias)
	}
	if f.Changed("models") {
		out["models"] = []string{}
		if len(o.models) != 1 || o.models[0] != none {
			out["models"] = o.models
		}
	}
	for name, l := range map[string]limitFlag{"rpm": o.rpm, "tpm": o.tpm, "max-parallel": o.maxParallel} {
		if f.Changed(name) {
			out[map[string]string{"rpm": "rpm_limit", "tpm": "tpm_limit", "max-parallel": "max_parallel_requests"}[name]] = l.n
		}
	}
	for flag, values := range map[string][]string{"model-rpm": o.modelRPM, "model-tpm": o.modelTPM} {
		if !f.Changed(flag) {
			continue
		}
		limits, err := perModel(flag, values)
		if err != nil {
			return nil, err
		}
		out[map[string]string{"model-rpm": "model_rpm_limit", "model-tpm": "model_tpm_limit"}[flag]] = limits
	}
	return out, nil
}

func perModel(flag string, values []string) (map[string]*int64, error) {
	limits := map[string]*int64{}
	if len(values) == 1 && values[0] == none {
		return limits, nil
	}
	for _, v := range values {
		i := strings.LastIndex(v, "=")
		var l limitFlag
		if i <= 0 || l.Set(v[i+1:]) != nil {
			return nil, usagef("--%s %q is not MODEL=N", flag, v)
		}
		limits[v[:i]] = l.n
	}
	return limits, nil
}

// metadataChanged reports whether the flags touch metadata, which the API
// replaces as a whole.
func (o *recordOptions) metadataChanged(f *pflag.FlagSet) bool {
	return f.Changed("priority") || f.Changed("metadata")
}

// mergeMetadata returns old with what the flags say.
func (o *recordOptions) mergeMetadata(f *pflag.FlagSet, old map[string]any) (map[string]any, error) {
	merged := maps.Clone(old)
	if merged == nil {
		merged = map[string]any{}
	}
	for _, pair := range o.metadata {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("--metadata %q is not NAME=VALUE", pair)
		}
		merged[name] = value
	}
	if f.Changed("priority") {
		merged["priority"] = o.priority
		if o.priority == none || o.priority == "" {
			delete(merged, "priority")
		}
	}
	return merged, nil
}

func nullable(s string) any {
	if s == none || s == "" {
		return nil
	}
	return s
}

// priorityIn reads the priority out of metadata.
func priorityIn(metadata map[string]any) string {
	s, _ := metadata["priority"].(string)
	return s
}

// otherMetadata shows metadata without its priority.
func otherMetadata(metadata map[string]any) string {
	rest := maps.Clone(metadata)
	delete(rest, "priority")
	if len(rest) == 0 {
		return ""
	}
	b, err := json.Marshal(rest)
	if err != nil {
		return ""
	}
	return string(b)
}

// needChange refuses an update that names nothing.
func needChange(cmd *cobra.Command, f admin.Fields) error {
	if len(f) == 0 {
		return usagef("nothing to change; `%s --help` lists the flags", cmd.CommandPath())
	}
	return nil
}
