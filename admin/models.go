package admin

import (
	"context"

	"sluice/fsm"
	"sluice/limiter"
)

// ModelInfo answers GET /model/info: one entry per deployment.
type ModelInfo struct {
	Data []ModelEntry `json:"data"`
}

// ModelEntry is one deployment of a model. Credentials are never shown, not
// even as references.
type ModelEntry struct {
	ModelName     string          `json:"model_name"`
	LitellmParams ModelParams     `json:"litellm_params"`
	ModelInfo     ModelEntryFacts `json:"model_info"`
}

// ModelParams is what is sent where. RPM and TPM are the deployment's own.
type ModelParams struct {
	Model   string        `json:"model"`
	APIBase *string       `json:"api_base"`
	RPM     limiter.Limit `json:"rpm"`
	TPM     limiter.Limit `json:"tpm"`
	Weight  int64         `json:"weight"`
}

// ModelEntryFacts is what is known of a deployment and of its model.
type ModelEntryFacts struct {
	ID              string `json:"id"`
	DBModel         bool   `json:"db_model"`
	Key             string `json:"key"`
	LitellmProvider string `json:"litellm_provider"`
	Mode            string `json:"mode"`
	// ModelRPM and ModelTPM are the limits of the whole model, from the
	// configuration or summed over its deployments.
	ModelRPM limiter.Limit `json:"model_rpm"`
	ModelTPM limiter.Limit `json:"model_tpm"`
}

func (a *Admin) modelInfo(context.Context, *call) (any, error) {
	cfg := a.o.State.View().Config()
	answer := ModelInfo{Data: []ModelEntry{}}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		limits := limiter.Limits{Requests: m.RPM, Tokens: m.TPM}
		if p := cfg.PolicyFor(m.Name); p != nil {
			limits = p.Limits
		}
		for j := range m.Deployments {
			answer.Data = append(answer.Data, modelEntry(m, &m.Deployments[j], limits))
		}
	}
	return answer, nil
}

func modelEntry(m *fsm.Model, d *fsm.Deployment, limits limiter.Limits) ModelEntry {
	name := d.Model
	if name == "" {
		name = m.Name
	}
	weight := int64(1)
	if d.Weight != nil {
		weight = *d.Weight
	}
	return ModelEntry{ModelName: m.Name,
		LitellmParams: ModelParams{Model: d.Provider + "/" + name, APIBase: ptr(d.APIBase), RPM: d.RPM, TPM: d.TPM, Weight: weight},
		ModelInfo: ModelEntryFacts{ID: d.ID, Key: name, LitellmProvider: d.Provider, Mode: "chat",
			ModelRPM: limits.Requests, ModelTPM: limits.Tokens}}
}
