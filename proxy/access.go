package proxy

import (
	"net/http"
	"strings"
	"unicode"

	"sluice/fsm"
)

// Names in an allow-list that are not models.
const (
	allProxyModels = "all-proxy-models" // everything
	allTeamModels  = "all-team-models"  // whatever the team may use
)

// resolve finds the model that a client means and checks that the sender may
// use it. Aliases are resolved first: allow-lists are about the target, and may
// name it or the alias. The error is an *Error, 404 or 403; a sender who may
// not use the name learns nothing about whether it exists.
func (id Identity) resolve(c *fsm.Compiled, e endpoint, name string) (fsm.Resolved, error) {
	m, known := c.Resolve(name)
	known = known && plainName(name)
	if !known {
		m = fsm.Resolved{Group: name, Asked: name}
	}
	if !id.keyAllows(name, m) {
		return fsm.Resolved{}, modelDenied("key", name)
	}
	if id.Team != nil && !allows(id.Team.Models, name, m) {
		return fsm.Resolved{}, modelDenied("team", name)
	}
	if !known {
		return fsm.Resolved{}, unknownModel(e, name)
	}
	return m, nil
}

// keyAllows reports whether the key's own list admits the model.
func (id Identity) keyAllows(name string, m fsm.Resolved) bool {
	if id.Key == nil {
		return true
	}
	if allows(id.Key.Models, name, m) {
		return true
	}
	for _, entry := range id.Key.Models {
		if entry == allTeamModels {
			// The team's list is checked after this one in any case.
			return id.Team != nil
		}
	}
	return false
}

// allows reports whether an allow-list admits the model that name means. An
// entry is the name as asked for, the group, the target, or a pattern with a
// star at its end, which is about the target only.
func allows(list []string, name string, m fsm.Resolved) bool {
	if len(list) == 0 {
		return true
	}
	for _, entry := range list {
		if entry == allProxyModels || entry == name || entry == m.Group || entry == m.Asked {
			return true
		}
		if prefix, ok := strings.CutSuffix(entry, "*"); ok && strings.HasPrefix(m.Asked, prefix) {
			return true
		}
	}
	return false
}

// maxModelName bounds the name of a model, as configuration does.
const maxModelName = 255 // bytes

// plainName reports whether a name is one that a model could be configured
// with. Below a wildcard the client makes the names up, and they go far: into
// the log's entries, whose size is bounded, into headers, into an upstream's
// path. A name that some reader would trim to another one must not have
// counters of its own either.
func plainName(name string) bool {
	if len(name) > maxModelName || strings.TrimSpace(name) != name {
		return false
	}
	for _, r := range name {
		if !unicode.IsGraphic(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	for seg := range strings.SplitSeq(name, "/") {
		if seg == "." || seg == ".." {
			return false
		}
	}
	return true
}

func modelDenied(who, name string) *Error {
	return &Error{
		Status: http.StatusForbidden, Type: who + "_model_access_denied", Param: "model",
		Message: "The requested model '" + clip(name) + "' is not available for this API key, or the model name is invalid. Check the models available to you and try again.",
	}
}

func unknownModel(e endpoint, name string) *Error {
	return &Error{
		Status: http.StatusNotFound, Type: typeInvalid, Param: "model",
		Message: e.path() + ": Invalid model name passed in model=" + clip(name) + ". Call `/v1/models` to view available models for your key.",
	}
}

// clip bounds a client's text that is shown to it again. A key in the place of
// a name is not shown: answers end up in logs.
func clip(s string) string {
	const most = 200
	if strings.HasPrefix(s, "sk-") {
		return redacted(s)
	}
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
