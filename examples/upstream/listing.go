package upstream

import (
	"io"
	"net/http"
	"slices"
)

// listModels answers in Anthropic's shape to whoever names a version of its API.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	connOf(r).take() // belongs to no recorded request
	if asksAnthropic(r) {
		writeJSON(w, http.StatusOK, anthropicModels(s.models))
		return
	}
	writeJSON(w, http.StatusOK, models(s.models))
}

func (s *Server) showModel(w http.ResponseWriter, r *http.Request) {
	connOf(r).take()
	name := r.PathValue("model")
	known := slices.Contains(s.models, name)
	switch {
	case !known && asksAnthropic(r):
		writeJSON(w, http.StatusNotFound, anthropicError(http.StatusNotFound, "model: "+name))
	case !known:
		writeJSON(w, http.StatusNotFound, errorBody(http.StatusNotFound, "The model '"+name+"' does not exist"))
	case asksAnthropic(r):
		writeJSON(w, http.StatusOK, encode(anthropicModel(name)))
	default:
		writeJSON(w, http.StatusOK, encode(object{"id": name, "object": "model", "created": created, "owned_by": "mock"}))
	}
}

func asksAnthropic(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client left: nobody to tell
}
