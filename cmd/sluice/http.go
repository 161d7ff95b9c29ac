package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"sluice/proxy"
)

const (
	// No time limit lies on a whole request or answer; these are for what comes
	// before and after.
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 64 << 10 // bytes

	// graceTime is how long a stopping node still takes connections, so that
	// balancers see the readiness probe fail first.
	graceTime = time.Second
	// breakTime is what streams get to end with an error event of their own
	// once the drain time is over.
	breakTime = 2 * time.Second
)

// serveHTTP binds the port and serves what the front has.
func (a *app) serveHTTP(ctx context.Context) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.file.Node.Gateway.Listen)
	if err != nil {
		return fmt.Errorf("gateway.listen: %w; choose another address with --listen", err)
	}
	base, cancel := context.WithCancelCause(context.Background())
	a.listener, a.breakOff = ln, cancel
	a.server = &http.Server{
		Handler:           a.front,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       withLines,
		ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
	a.cleanup.add("close the HTTP port", func(context.Context) error {
		cancel(proxy.ErrShutdown)
		return a.server.Close()
	})
	go func() {
		if err := a.server.Serve(lineListener{ln}); !errors.Is(err, http.ErrServerClosed) {
			a.fail(fmt.Errorf("serve HTTP: %w", err))
		}
	}()
	return nil
}

// drain turns readiness off, takes connections for a moment longer, and then
// waits for the requests that run: until gateway.drain is over, when they are
// told to end.
func (a *app) drain(ctx context.Context) error {
	a.front.stopping.Store(true)
	drain := a.file.Node.Gateway.Drain
	if err := sleep(ctx, min(graceTime, drain/10)); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	err := a.server.Shutdown(wait)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	a.logger.Warn("requests are broken off, because the drain time is over", "drain", drain)
	a.breakOff(proxy.ErrShutdown)
	wait, cancel = context.WithTimeout(ctx, breakTime)
	defer cancel()
	if err := a.server.Shutdown(wait); err != nil {
		return errors.Join(fmt.Errorf("wait for requests to end: %w", err), a.server.Close())
	}
	return nil
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
