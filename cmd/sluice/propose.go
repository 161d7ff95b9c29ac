package main

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"sluice/cmd/sluice/config"
	"sluice/fsm"
)

// proposer offers the file's cluster-wide half to the cluster until there is a
// leader that takes it. A newer file replaces the one on offer.
type proposer struct {
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// The times between attempts while there is no leader.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
)

// run ends the attempt that is going on and starts another.
func (p *proposer) run(attempt func(ctx context.Context)) {
	p.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p.cancel, p.done = cancel, done
	go func() {
		defer close(done)
		attempt(ctx)
	}()
}

// close ends the attempt that is going on and waits for its end.
func (p *proposer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
		<-p.done
		p.cancel = nil
	}
}

// propose offers the file in the background.
func (a *app) propose(f *config.File) {
	for _, w := range f.Warnings {
		a.logger.Warn("configuration", "file", f.Name, "warning", w)
	}
	source := f.Name
	if source == "" {
		source = "defaults of " + a.node.ID()
	}
	offer := a.client.ProposeInitialConfig
	if f.ClusterWide {
		offer = a.client.ProposeConfig
	}
	a.proposer.run(func(ctx context.Context) {
		wait := firstRetry
		for {
			r, err := offer(ctx, f.Cluster, source)
			if ctx.Err() != nil {
				return
			}
			if a.proposed(f, r, err) {
				a.caughtUp()
				return
			}
			if sleep(ctx, wait) != nil {
				return
			}
			wait = min(2*wait, lastRetry)
		}
	})
}

// caughtUp ends the start: this node has heard of a leader and of the cluster's
// configuration. Replaying a long log with many keys leaves as much garbage as
// data behind, which goes before requests come.
func (a *app) caughtUp() {
	if a.started.Load() {
		return
	}
	debug.FreeOSMemory()
	a.started.Store(true)
	if a.readiness().Ready {
		a.logger.Info("ready")
	}
}

// proposed reports the outcome; false: it has to be tried again.
func (a *app) proposed(f *config.File, r fsm.ConfigResult, err error) bool {
	var invalid *fsm.InvalidConfigError
	switch {
	case errors.As(err, &invalid):
		a.logger.Error("the cluster refuses the configuration", "file", f.Name, "error", err)
	case err != nil:
		a.logger.Debug("the configuration waits for a leader", "file", f.Name, "error", err)
		return false
	case r.Status == fsm.StatusStale:
		a.logger.Warn("the file holds an older configuration and is not applied; `sluice admin config apply` or `rollback` would decide otherwise",
			"file", f.Name, "current_version", r.Version)
	default:
		a.logger.Info("configuration", "file", f.Name, "status", r.Status, "version", r.Version)
	}
	return true
}

// reload reads the file again. What is cluster-wide is proposed; what belongs
// to this node only is named, because it needs a restart. A file with problems
// changes nothing.
func (a *app) reload(load func() (*config.File, config.Problems)) {
	f, problems := load()
	if len(problems) > 0 {
		for _, p := range problems {
			a.logger.Error("reload refused; the running configuration stays", "problem", p.String())
		}
		return
	}
	if f.Name == "" {
		a.logger.Warn("reload: there is no file; start with --config")
		return
	}
	if changed := f.Changed(a.file); len(changed) > 0 {
		a.logger.Warn("reload: these settings of this node take effect at its next start", "settings", changed)
	}
	a.propose(f)
}
