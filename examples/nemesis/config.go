package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// toml writes the configuration of every node, as it is after so many reloads.
func (p *Plan) toml(provider string, reloads int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `[gateway]
master_key = "os.environ/SLUICE_MASTER_KEY"
window     = %q
drain      = "2s"

[log]
level = "debug"

[cluster]
secret = "os.environ/SLUICE_CLUSTER_SECRET"

[limits]
on_no_quorum = %q
lease_ttl    = %q
`, p.Window, p.Mode, p.LeaseTTL)
	if p.Conserving {
		fmt.Fprintf(&b, "allocation = \"work_conserving\"\nactive_window = \"1s\"\n")
	}
	if p.Reserve {
		fmt.Fprintf(&b, "token_accounting = \"reserve\"\noversize = \"alone\"\n")
	}
	if len(p.Priorities) > 0 {
		fmt.Fprintf(&b, "\n[priority_reservation]\n")
		for _, name := range slices.Sorted(maps.Keys(p.Priorities)) {
			fmt.Fprintf(&b, "%s = %v\n", name, p.Priorities[name])
		}
	}
	for _, m := range p.Models {
		fmt.Fprintf(&b, "\n[[models]]\nname = %q\nprovider = \"openai_compatible\"\napi_base = \"%s/v1\"\napi_key = \"os.environ/UPSTREAM_KEY\"\n", m.Name, provider)
		rpm := m.RPM
		for _, r := range p.Reloads[:reloads] {
			if r.Model == m.Name {
				rpm = r.RPM
			}
		}
		if rpm > 0 {
			fmt.Fprintf(&b, "rpm = %d\n", rpm)
		}
		if m.TPM > 0 {
			fmt.Fprintf(&b, "tpm = %d\n", m.TPM)
		}
	}
	return b.String()
}
