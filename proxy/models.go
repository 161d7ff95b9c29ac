package proxy

import (
	"net/http"
	"slices"
	"strings"

	"sluice/fsm"
)

// listModels answers with the names that the sender may use: models in the
// order of the configuration, aliases, and what its allow-lists name below a
// wildcard. Wildcards themselves are shown on request only: they cannot be called.
func (x *exchange) listModels() error {
	names := x.id.modelNames(x.view.Config(), x.r.URL.Query().Get("return_wildcard_routes") == "true")
	if x.protocol() == anthropicProtocol {
		x.status = http.StatusOK
		writeJSON(x.w, http.StatusOK, anthropicModels(names))
		return nil
	}
	b := []byte(`{"data":[`)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendModel(b, name)
	}
	x.status = http.StatusOK
	writeJSON(x.w, http.StatusOK, append(b, `],"object":"list"}`...))
	return nil
}

// showModel answers for one name.
func (x *exchange) showModel(name string) error {
	if _, err := x.id.resolve(x.view.Config(), x.endpoint, name); err != nil {
		return err
	}
	x.status = http.StatusOK
	entry := appendModel
	if x.protocol() == anthropicProtocol {
		entry = appendAnthropicModel
	}
	writeJSON(x.w, http.StatusOK, entry(nil, name))
	return nil
}

// appendModel appends one entry; created and owner are LiteLLM's constants.
func appendModel(b []byte, name string) []byte {
	b = appendText(append(b, `{"id":`...), name)
	return append(b, `,"object":"model","created":1677610602,"owned_by":"openai"}`...)
}

// anthropicModels is the list in the shape that Anthropic's clients read: one
// page with everything.
func anthropicModels(names []string) []byte {
	b := []byte(`{"data":[`)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAnthropicModel(b, name)
	}
	if len(names) == 0 {
		return append(b, `],"has_more":false,"first_id":null,"last_id":null}`...)
	}
	b = appendText(append(b, `],"has_more":false,"first_id":`...), names[0])
	return append(appendText(append(b, `,"last_id":`...), names[len(names)-1]), '}')
}

// appendAnthropicModel appends one entry; it was created when appendModel's was.
func appendAnthropicModel(b []byte, name string) []byte {
	b = appendText(append(b, `{"type":"model","id":`...), name)
	b = appendText(append(b, `,"display_name":`...), name)
	return append(b, `,"created_at":"2023-02-28T18:56:42Z"}`...)
}

// modelNames returns what the sender may use.
func (id Identity) modelNames(c *fsm.Compiled, wildcards bool) []string {
	var names []string
	add := func(name string) {
		if _, err := id.resolve(c, listModels, name); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range c.ModelNames() {
		if strings.HasSuffix(name, "*") {
			if wildcards && id.mayList(name) {
				names = append(names, name)
			}
			continue
		}
		add(name)
	}
	aliases := make([]string, 0, len(c.Aliases))
	for alias := range c.Aliases {
		aliases = append(aliases, alias)
	}
	slices.Sort(aliases)
	for _, alias := range aliases {
		add(alias)
	}
	for _, name := range id.listed() {
		add(name)
	}
	return names
}

// listed returns the names in the sender's allow-lists.
func (id Identity) listed() []string {
	var names []string
	if id.Key != nil {
		names = append(names, id.Key.Models...)
	}
	if id.Team != nil {
		names = append(names, id.Team.Models...)
	}
	return names
}

// mayList reports whether the sender's lists admit a wildcard as such.
func (id Identity) mayList(wildcard string) bool {
	m := fsm.Resolved{Group: wildcard, Asked: wildcard}
	return id.keyAllows(wildcard, m) && (id.Team == nil || allows(id.Team.Models, wildcard, m))
}
