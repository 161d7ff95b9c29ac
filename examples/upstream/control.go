package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// script is the body of POST /_script.
type script struct {
	Match
	Steps []Step `json:"steps"`
}

// control adds the endpoints that users steer and read the mock with:
//
//	POST   /_script  {"model":"m","steps":[{"status":503},{"times":-1,"delay_ms":200}]}
//	DELETE /_script  forgets all scripts
//	GET    /_log     {"count":2,"requests":[…]}   ?model=m for one model
//	DELETE /_log     forgets requests and counts
func (s *Server) control(mux *http.ServeMux) {
	// Their own bytes belong to no recorded request.
	forget := func(r *http.Request) { connOf(r).take() }
	mux.HandleFunc("POST /_script", func(w http.ResponseWriter, r *http.Request) {
		var in script
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		err := d.Decode(&in)
		forget(r)
		for i, step := range in.Steps {
			if err != nil {
				break
			}
			if bad := step.Validate(); bad != nil {
				err = fmt.Errorf("steps[%d]: %w", i, bad)
			}
		}
		if err != nil {
			http.Error(w, errorBody(http.StatusBadRequest, err.Error()), http.StatusBadRequest)
			return
		}
		s.Play(in.Match, in.Steps...)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /_script", func(w http.ResponseWriter, r *http.Request) {
		forget(r)
		s.scripts.clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /_log", func(w http.ResponseWriter, r *http.Request) {
		forget(r)
		model := r.URL.Query().Get("model")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct { // the client left: nobody to tell
			Count    int64     `json:"count"`
			Requests []Request `json:"requests"`
		}{s.Count(model), s.Requests(model)})
	})
	mux.HandleFunc("DELETE /_log", func(w http.ResponseWriter, r *http.Request) {
		forget(r)
		s.journal.clear()
		w.WriteHeader(http.StatusNoContent)
	})
}
