package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"sluice/admin"
	"sluice/fsm"
	"sluice/limiter"
	"sluice/node"
	"sluice/proxy"
)

// shown is the state as the control plane shows it: windows as they were served.
type shown struct {
	*fsm.State
	gate *limiter.Gate
}

var _ admin.State = shown{}

func (s shown) Limits(model string) []limiter.ModelState {
	windows := s.State.Limits(model)
	for i := range windows {
		windows[i] = s.gate.AsServed(windows[i])
	}
	return windows
}

// membership shows the node's cluster to the control plane.
type membership struct{ *app }

var _ admin.Cluster = membership{}

// Status asks every member how it is; it takes half a second if one does not answer.
func (m membership) Status(ctx context.Context) admin.ClusterStatus {
	s := m.node.Status()
	out := admin.ClusterStatus{
		NodeID: s.NodeID, ClusterID: s.ClusterID, Version: s.Version, State: s.State, Term: s.Term,
		LastLogIndex: s.LastLogIndex, CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex,
		Limits: m.mode(),
	}
	if s.LeaderID != "" {
		out.Leader = &admin.NodeRef{ID: s.LeaderID, Address: s.LeaderAddress}
	}
	for _, member := range m.node.Members(ctx) {
		n := admin.NodeState{
			ID: member.ID, Address: member.Address, Voter: member.Voter, Leader: member.Leader, Reachable: member.Reachable,
		}
		if member.Reachable {
			n.AppliedIndex, n.Version = &member.AppliedIndex, &member.Version
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}

func (m membership) Remove(ctx context.Context, id string) error { return m.node.Remove(ctx, id) }

func (m membership) Transfer(ctx context.Context, id string) error { return m.node.Transfer(ctx, id) }

// others returns the ids of the other members, as far as this node knows.
func (a *app) others(ctx context.Context) []string {
	var ids []string
	for _, m := range a.node.Members(ctx) {
		if m.ID != a.node.ID() {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// sharedSettings returns fingerprints of what must be the same on all nodes. They
// are keyed with the cluster's secret, so they say nothing to anybody who does
// not hold that, and too short to tell one key from all others.
func sharedSettings(secret, masterKey string) map[string]string {
	mac := hmac.New(sha256.New, []byte("sluice shared settings 1 "+secret))
	mac.Write([]byte(masterKey))
	return map[string]string{"gateway.master_key": hex.EncodeToString(mac.Sum(nil)[:4])}
}

// classify sorts the errors of the log for the control plane.
func classify(err error) admin.Failure {
	for _, c := range []struct {
		err     error
		failure admin.Failure
	}{
		{node.ErrOutcomeUnknown, admin.FailureOutcomeUnknown}, // first: it may wrap others
		{node.ErrNoLeader, admin.FailureNoLeader},
		{node.ErrClosed, admin.FailureNoLeader},
		{node.ErrTooLarge, admin.FailureTooLarge},
		{node.ErrNotMember, admin.FailureNotMember},
		{node.ErrLastVoter, admin.FailureLastVoter},
		{node.ErrNotVoter, admin.FailureNotVoter},
		{node.ErrOldMember, admin.FailureOldMember},
		{node.ErrNotTransferred, admin.FailureNotTransferred},
		{node.ErrNoMajority, admin.FailureNoMajority},
	} {
		if errors.Is(err, c.err) {
			return c.failure
		}
	}
	return admin.FailureOther
}

// authenticate tells the control plane who calls, by the rules of the data plane.
func authenticate(data *proxy.Proxy, r *http.Request) (admin.Caller, error) {
	id, err := data.Identify(r)
	if err == nil {
		err = id.Usable(time.Now())
	}
	if err != nil {
		var refused *proxy.Error
		if !errors.As(err, &refused) {
			return admin.Caller{}, err
		}
		out := &admin.Error{Status: refused.Status, Type: refused.Type, Param: refused.Param, Message: refused.Message}
		if out.Status == http.StatusServiceUnavailable {
			out.RetryAfter = time.Second
		}
		return admin.Caller{}, out
	}
	caller := admin.Caller{Master: id.Master}
	if id.Key != nil {
		caller.KeyID, caller.TeamID = id.Key.ID, id.Key.TeamID
	}
	return caller, nil
}

// mode is how exact the limits are now. A node without traffic asks the log for
// nothing, and does not notice by itself that nobody would answer.
func (a *app) mode() string {
	if mode := a.gate.Mode(); mode != limiter.Exact || a.node.Status().LeaderID != "" || !a.gate.GoesOn() {
		return mode
	}
	return string(a.state.View().Config().Limits.OnNoQuorum)
}

// readiness says whether a balancer should send requests here.
func (a *app) readiness() admin.Readiness {
	if err := a.node.Err(); err != nil {
		return admin.Readiness{Reasons: []string{"the node has stopped by itself: " + err.Error()}}
	}
	if a.front.stopping.Load() {
		return admin.Readiness{Reasons: []string{"the node is stopping"}}
	}
	s := a.node.Status()
	v := a.state.View()
	switch {
	case s.State == "forming":
		return admin.Readiness{Reasons: []string{"the node belongs to no cluster yet" + because(s.Waiting)}}
	case v.ConfigVersion() == 0:
		return admin.Readiness{Reasons: []string{"the node has no configuration yet"}}
	case s.LeaderID != "" && !a.gate.Degraded() && !a.started.Load():
		return admin.Readiness{Reasons: []string{"the node is catching up with the cluster"}}
	case s.LeaderID != "" && !a.gate.Degraded():
		return admin.Readiness{Ready: true}
	}
	reason := "no leader is known, so limits cannot be counted"
	if s.LeaderID != "" {
		reason = "the leader does not answer, so limits cannot be counted"
	}
	reason += because(s.Waiting)
	policy := v.Config().Limits.OnNoQuorum
	reason += "; limits.on_no_quorum is " + string(policy)
	// Where such requests are refused, a balancer does better elsewhere.
	serves := a.gate.GoesOn()
	if policy == limiter.NoQuorumShare && !serves {
		reason += ", but this process has not reached the cluster yet and does not know what is left of the limits"
	}
	return admin.Readiness{Ready: serves, Degraded: serves, Reasons: []string{reason}}
}

// because appends what the node waits for, if it knows.
func because(waiting string) string {
	if waiting == "" {
		return ""
	}
	return " (" + waiting + ")"
}
