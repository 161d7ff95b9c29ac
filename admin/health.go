package admin

import "net/http"

// ReadinessAnswer is the body of /health/readiness. Status and DB are what
// LiteLLM's probes read.
type ReadinessAnswer struct {
	Status   string   `json:"status"` // healthy | unhealthy
	DB       string   `json:"db"`     // connected | Not connected
	Degraded bool     `json:"degraded"`
	Reasons  []string `json:"reasons"`
	Limits   string   `json:"limits"` // exact | share | allow
}

func (a *Admin) alive(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, "I'm alive!")
	return nil
}

func (a *Admin) readiness(w http.ResponseWriter, _ *http.Request) error {
	r := a.o.Ready()
	answer := ReadinessAnswer{Status: "healthy", DB: "connected", Degraded: r.Degraded, Reasons: r.Reasons, Limits: a.o.Mode()}
	if answer.Reasons == nil {
		answer.Reasons = []string{}
	}
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
		answer.Status, answer.DB = "unhealthy", "Not connected"
	}
	writeJSON(w, status, answer)
	return nil
}

func (a *Admin) metrics(w http.ResponseWriter, r *http.Request) error {
	if a.o.Metrics == nil {
		return notFound("", "This node collects no metrics.")
	}
	a.o.Metrics.ServeHTTP(w, r)
	return nil
}
