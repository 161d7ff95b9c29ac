package admin

import (
	"context"
	"errors"

	"sluice/fsm"
	"sluice/limiter"
)

// PriorityList answers GET /priority/list: the reservation table by name.
type PriorityList struct {
	Priorities []Priority `json:"priorities"`
	// DefaultPriority is the share of all requests without a known priority.
	DefaultPriority     float64  `json:"default_priority"`
	SaturationThreshold float64  `json:"saturation_threshold"`
	ConfigVersion       uint64   `json:"config_version"`
	Warnings            []string `json:"warnings"`
}

// Priority is one entry of the table.
type Priority struct {
	Priority string        `json:"priority"`
	Share    limiter.Share `json:"share"`
}

func (a *Admin) listPriorities(context.Context, *call) (any, error) {
	v := a.o.State.View()
	r := v.Config().Reservation
	answer := PriorityList{Priorities: []Priority{}, DefaultPriority: r.Default, SaturationThreshold: r.Threshold,
		ConfigVersion: v.ConfigVersion(), Warnings: list(v.Config().Warnings)}
	for _, name := range sortedKeys(r.Shares) {
		answer.Priorities = append(answer.Priorities, Priority{Priority: name, Share: r.Shares[name]})
	}
	return answer, nil
}

// setPriority answers POST /priority/set {"priority","share"}. The share is a
// number, a string such as "90%" or "9rpm", or {"type","value"}.
func (a *Admin) setPriority(ctx context.Context, c *call) (any, error) {
	name, err := c.body.required("priority")
	if err != nil {
		return nil, err
	}
	if c.body.isNull("share") {
		return nil, missing("body", "share")
	}
	share, err := shareFromJSON(c.body["share"])
	if err != nil {
		return nil, badRequest("share", "%v", err)
	}
	c.target = clip(name)
	return written(a.o.Store.SetShare(ctx, name, share, c.write))
}

// unsetPriority answers POST /priority/unset {"priority"}. Keys that claim the
// priority then count in the default pool.
func (a *Admin) unsetPriority(ctx context.Context, c *call) (any, error) {
	name, err := c.body.required("priority")
	if err != nil {
		return nil, err
	}
	c.target = clip(name)
	answer, err := written(a.o.Store.UnsetShare(ctx, name, c.write))
	if errors.Is(err, fsm.ErrNotFound) {
		return nil, notFound("priority", "Priority %q has no share; `sluice admin priority list` shows those that have.", clip(name))
	}
	return answer, err
}
