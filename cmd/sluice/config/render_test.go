package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestChangedNamesNodeLocalSettingsOnly(t *testing.T) {
	before := parse(t, base+"listen = \"127.0.0.1:1\"\n[cluster]\nnode_id = \"a\"\n")
	after := parse(t, base+"listen = \"127.0.0.1:2\"\nwindow = \"1s\"\n[log]\nlevel = \"debug\"\n[upstream]\nidle_timeout = \"1s\"\n[aliases]\n")
	if got, want := after.Changed(before), []string{"gateway.listen", "log.level", "cluster.node_id"}; !reflect.DeepEqual(got, want) {
		t.Errorf("changed are %v, want %v", got, want)
	}
	if got := before.Changed(before); got != nil {
		t.Errorf("nothing changed, but %v", got)
	}
}

func TestRenderShowsEveryLimitSettingAndMeansTheSame(t *testing.T) {
	for _, doc := range []string{base, base + "[limits]\nlease_ttl = \"0s\"\nallocation = \"work_conserving\"\nhold_back = 0.1\nactive_window = \"3s\"\ntoken_accounting = \"reserve\"\noversize = \"alone\"\n"} {
		f := parse(t, doc)
		text := f.Render()
		for _, key := range []string{"on_no_quorum", "lease_ttl", "allocation", "hold_back", "active_window", "token_accounting", "oversize", "token_rate_limit_type", "count_cached_tokens"} {
			if !strings.Contains(text, "\n"+key+" = ") {
				t.Errorf("%s is not shown", key)
			}
		}
		if again := parse(t, text); !reflect.DeepEqual(again.Cluster, f.Cluster) || len(again.Warnings) > 0 {
			t.Errorf("what is shown means %+v, not %+v; warnings %q", again.Cluster, f.Cluster, again.Warnings)
		}
	}
}
