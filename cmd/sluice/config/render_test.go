package config

import (
	"reflect"
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
