package admin

import (
	"context"
	"time"

	"sluice/limiter"
)

// LimitsAnswer answers GET /limits.
type LimitsAnswer struct {
	Limits string        `json:"limits"` // exact | share | allow
	Models []ModelLimits `json:"models"`
	// Upstream holds the providers' quotas; none are tracked yet.
	Upstream []struct{} `json:"upstream"`
}

// ModelLimits is one model's running window. A window that has lapsed shows
// nothing used and no times.
type ModelLimits struct {
	Model           string       `json:"model"`
	WindowSeconds   float64      `json:"window_seconds"`
	WindowStartedAt *string      `json:"window_started_at"`
	ResetsAt        *string      `json:"resets_at"`
	RPM             Gauge        `json:"rpm"`
	TPM             Gauge        `json:"tpm"`
	Saturation      float64      `json:"saturation"`
	Threshold       float64      `json:"threshold"`
	Mode            string       `json:"mode"` // generous | strict | work_conserving
	Pools           []PoolLimits `json:"pools"`
}

// PoolLimits is one priority's part. Priority is null for the pool of all
// requests without a known priority.
type PoolLimits struct {
	Priority *string `json:"priority"`
	Share    float64 `json:"share"`
	RPM      Gauge   `json:"rpm"`
	TPM      Gauge   `json:"tpm"`
}

// Gauge is a limit, null if there is none, and what is used of it.
type Gauge struct {
	Limit limiter.Limit `json:"limit"`
	Used  int64         `json:"used"`
}

// showLimits answers GET /limits[?model=]. The model may be an alias.
func (a *Admin) showLimits(_ context.Context, c *call) (any, error) {
	model := c.query.Get("model")
	if model != "" {
		r, ok := a.o.State.View().Config().Resolve(model)
		if !ok {
			return nil, notFound("model", "Invalid model name passed in model=%s; `sluice admin model list` shows them", clip(model))
		}
		model = r.Group
	}
	answer := LimitsAnswer{Limits: a.o.Mode(), Models: []ModelLimits{}, Upstream: []struct{}{}}
	windows := a.o.State.Limits(model)
	now := a.now() // not when the question came: the leader was asked since
	for _, m := range windows {
		answer.Models = append(answer.Models, modelLimits(m, now))
	}
	return answer, nil
}

func modelLimits(m limiter.ModelState, now time.Time) ModelLimits {
	l := ModelLimits{
		Model: m.Model, WindowSeconds: m.Window.Seconds(), Saturation: m.Saturation, Threshold: m.Threshold, Mode: "generous",
		RPM: Gauge{m.Limits.Requests, m.Used.Requests}, TPM: Gauge{m.Limits.Tokens, m.Used.Tokens}, Pools: []PoolLimits{},
	}
	if m.Strict {
		l.Mode = "strict"
	}
	if m.Conserving {
		l.Mode = "work_conserving"
	}
	if m.Live {
		l.WindowStartedAt, l.ResetsAt = ptr(timestamp(now.Add(-m.Age))), ptr(timestamp(now.Add(m.ResetsIn)))
	}
	for _, p := range m.Pools {
		l.Pools = append(l.Pools, poolLimits(p))
	}
	return l
}

func poolLimits(p limiter.PoolState) PoolLimits {
	return PoolLimits{Priority: ptr(p.Name), Share: p.Share,
		RPM: Gauge{p.Limits.Requests, p.Used.Requests}, TPM: Gauge{p.Limits.Tokens, p.Used.Tokens}}
}
