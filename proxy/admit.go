package proxy

import (
	"errors"
	"net/http"

	"sluice/limiter"
)

// reckon estimates what the request will use at its model.
func (x *exchange) reckon() {
	x.estimate = limiter.Usage{}
	if x.reserves() && !x.endpoint.free() {
		x.estimate = limiter.Usage{Input: x.fields.inputTokens(x.bytes()), Output: x.outputTokens(&x.fields)}
	}
}

// ask asks the limiter. Whatever follows, the receipt is to be settled.
//
// There is none for what no limit counts: that is refused by limits of nothing alone.
func (x *exchange) ask() (Receipt, error) {
	if x.endpoint.free() {
		if r := x.blocked(); r != nil {
			return nil, r
		}
		return nil, nil
	}
	before := x.p.now()
	receipt, err := x.p.gate.Admit(x.r.Context(), limiter.Ticket{
		Model: x.model.Group, Key: x.id.keyID(), Team: x.id.teamID(), Priority: x.id.priority(),
		Estimate: x.estimate,
	})
	x.p.metrics.admission.Observe(x.p.now().Sub(before).Seconds())
	return receipt, err
}

// admit asks the limiter and explains its refusal. Whatever follows, the receipt
// is settled by finish.
func (x *exchange) admit() error {
	receipt, err := x.ask()
	if err == nil {
		x.receipt = receipt
		return nil
	}
	var refusal *limiter.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Oversize:
		return &Error{Status: http.StatusBadRequest, Type: typeInvalid, Message: x.oversize(refusal)}
	case errors.As(err, &refusal):
		x.refused(refusal)
		return &Error{Status: http.StatusTooManyRequests, Type: typeThrottled, Message: refusal.Error(), LimitedBy: refusal.Scope.LimitedBy()}
	case errors.Is(err, limiter.ErrNoQuorum):
		x.w.Header()["Retry-After"] = []string{"1"}
		return &Error{
			Status: http.StatusServiceUnavailable, Type: typeUnavailable, LimitedBy: "quorum", cause: err,
			Message: "No quorum: the cluster has no leader that can count this request. Try again.",
		}
	case x.r.Context().Err() != nil:
		return explain(x.r.Context(), err).err
	}
	return &Error{Status: http.StatusServiceUnavailable, Type: typeUnavailable, Message: "The limiter could not decide about this request. Try again.", cause: err}
}
