package limiter

import (
	"fmt"
	"math"
	"slices"
)

// ShareKind is how a reservation is written.
type ShareKind string

// The kinds of LiteLLM's priority_reservation. A bare number is a percentage.
const (
	SharePercent ShareKind = "percent"
	ShareRPM     ShareKind = "rpm"
	ShareTPM     ShareKind = "tpm"
)

// Share is one entry of the reservation table: a fraction 0..1 for percent,
// an absolute number of requests or tokens per window otherwise.
type Share struct {
	Kind  ShareKind `json:"type"`
	Value float64   `json:"value"`
}

// Reservation is the table of shares and what goes with it.
type Reservation struct {
	Shares    map[string]Share `json:"shares,omitempty"`
	Default   float64          `json:"default_priority"`
	Threshold float64          `json:"saturation_threshold"`
}

// Validate returns every fault of the table, with the name it concerns. An rpm
// or tpm share that meets a model without that limit is NewModelPolicy's to find.
func (r Reservation) Validate() []error {
	var errs []error
	for _, name := range sortedNames(r.Shares) {
		s := r.Shares[name]
		switch {
		case name == "":
			errs = append(errs, fmt.Errorf("priority_reservation: a priority needs a name"))
		case math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || s.Value < 0:
			errs = append(errs, fmt.Errorf("priority_reservation.%s: %v is not a share; use a number from 0 to 1", name, s.Value))
		case s.Kind == SharePercent && s.Value > 1:
			errs = append(errs, fmt.Errorf("priority_reservation.%s: %v is over 1; write 0.9 for 90 %%, or {type = \"rpm\", value = %v}", name, s.Value, s.Value))
		case s.Kind != SharePercent && s.Kind != ShareRPM && s.Kind != ShareTPM:
			errs = append(errs, fmt.Errorf("priority_reservation.%s: unknown type %q; use percent, rpm or tpm", name, s.Kind))
		}
	}
	if !inUnit(r.Default) {
		errs = append(errs, fmt.Errorf("priority_reservation_settings.default_priority: %v is outside 0..1", r.Default))
	}
	if !inUnit(r.Threshold) {
		errs = append(errs, fmt.Errorf("priority_reservation_settings.saturation_threshold: %v is outside 0..1", r.Threshold))
	}
	return errs
}

func inUnit(f float64) bool { return f >= 0 && f <= 1 }

// NewModelPolicy cuts a model's limits by the reservation. Shares that sum to
// more than 1 are divided by their sum and reported as a warning; an rpm or tpm
// share on a model without that limit is an error.
func NewModelPolicy(name string, limits Limits, r Reservation) (m *ModelPolicy, warnings []string, err error) {
	m = &ModelPolicy{Name: name, Limits: limits, Threshold: r.Threshold}
	if len(r.Shares) == 0 {
		return m, nil, nil
	}
	fractions := make(map[string]float64, len(r.Shares))
	sum := 0.0
	for _, p := range sortedNames(r.Shares) {
		f, err := fraction(name, p, r.Shares[p], limits)
		if err != nil {
			return nil, nil, err
		}
		fractions[p] = f
		sum += f
	}
	if sum > 1+1e-9 {
		warnings = append(warnings, fmt.Sprintf("model %s: priority_reservation adds up to %.4g; every share is divided by that", name, sum))
	} else {
		sum = 1
	}
	m.Pools = make(map[string]*PoolPolicy, len(fractions))
	left := limits
	for p, f := range fractions {
		pool := newPool(p, f/sum, limits)
		m.Pools[p] = pool
		left = Limits{Requests: left.Requests.without(pool.Limits.Requests), Tokens: left.Tokens.without(pool.Limits.Tokens)}
	}
	m.Default = newPool("", r.Default, limits)
	m.Default.Floor = Limits{Requests: m.Default.Limits.Requests.atMost(left.Requests), Tokens: m.Default.Limits.Tokens.atMost(left.Tokens)}
	return m, warnings, nil
}

// fraction turns a share into a part of this model, the same for both dimensions.
func fraction(model, priority string, s Share, limits Limits) (float64, error) {
	var whole Limit
	switch s.Kind {
	case ShareRPM:
		whole = limits.Requests
	case ShareTPM:
		whole = limits.Tokens
	default:
		return s.Value, nil
	}
	n, ok := whole.Get()
	if !ok {
		return 0, fmt.Errorf("priority_reservation.%s is given in %s, but model %s has no %s; set it there or write a share from 0 to 1", priority, s.Kind, model, s.Kind)
	}
	if n == 0 {
		return 0, nil
	}
	return s.Value / float64(n), nil
}

func newPool(name string, share float64, limits Limits) *PoolPolicy {
	part := Limits{Requests: cut(limits.Requests, share), Tokens: cut(limits.Tokens, share)}
	return &PoolPolicy{Name: name, Share: share, Limits: part, Floor: part}
}

// without returns what a part leaves of the limit; atMost the smaller of two
// limits of the same dimension, which are both set or both absent.
func (l Limit) without(part Limit) Limit { return Limit{n: max(l.n-part.n, 0), set: l.set} }
func (l Limit) atMost(most Limit) Limit  { return Limit{n: min(l.n, most.n), set: l.set} }

// cut returns floor(limit × share), free of float noise; a share above 0 of a
// limit above 0 never cuts to nothing.
func cut(l Limit, share float64) Limit {
	n, ok := l.Get()
	if !ok {
		return Limit{}
	}
	part := int64(math.Floor(float64(n)*share + 1e-9))
	if part < 1 && share > 0 && n > 0 {
		part = 1
	}
	return Of(part)
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
