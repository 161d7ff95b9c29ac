package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// Causes with which the gateway ends a call itself.
var (
	errFirstByte = errors.New("upstream sent nothing within upstream.first_byte_timeout")
	errIdle      = errors.New("upstream paused for longer than upstream.idle_timeout")
)

// watch reads an answer's body, and ends an upstream call that is silent for too long: before its first
// byte, then between bytes. The time that a slow client takes does not count,
// and there is no limit on the whole.
type watch struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	body    io.Reader // nil before the answer
	idle    time.Duration
	flowing atomic.Bool // a byte of the body has come
}

// start starts the clock for the first byte.
func (w *watch) start(parent context.Context, firstByte, idle time.Duration) {
	w.idle = idle
	w.ctx, w.cancel = context.WithCancelCause(parent)
	w.timer = time.AfterFunc(firstByte, w.ring)
}

// ring is called by the timer.
func (w *watch) ring() {
	if w.flowing.Load() {
		w.cancel(errIdle)
		return
	}
	w.cancel(errFirstByte)
}

// end stops the clock and the call, if it still runs.
func (w *watch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

// Read reads from the body under the clock.
func (w *watch) Read(p []byte) (int, error) {
	flowing := w.flowing.Load()
	if flowing {
		w.timer.Reset(w.idle)
	}
	n, err := w.body.Read(p)
	switch {
	case n > 0 && !flowing:
		w.flowing.Store(true)
		w.timer.Stop()
	case flowing:
		w.timer.Stop()
	}
	return n, err
}

// dialer returns a dial function that asks for its timeout each time.
func dialer(timeout func() time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: timeout()}
		return d.DialContext(ctx, network, addr)
	}
}

// failure is why an upstream gave no whole answer.
type failure struct {
	reason string // label of sluice_upstream_failures_total
	err    *Error
}

// The reasons that are not upstream failures.
const (
	clientGone   = "client_gone"
	shuttingDown = "shutdown"
)

// explain says what ended a call: err is what the transport or the body
// returned, ctx the call's context. Nothing of err reaches the client.
func explain(ctx context.Context, err error) failure {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errFirstByte), errors.Is(cause, errIdle):
		return failure{"timeout", gatewayTimeout("The upstream did not answer in time: "+cause.Error()+".", cause)}
	case errors.Is(cause, ErrShutdown):
		return failure{shuttingDown, &Error{Status: http.StatusServiceUnavailable, Type: typeUnavailable, Message: "This node is shutting down.", cause: cause}}
	case cause != nil:
		return failure{clientGone, &Error{Status: statusClientGone, Type: typeInvalid, Message: "The client closed the connection.", cause: cause}}
	}
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return failure{"timeout", gatewayTimeout("The upstream could not be reached in time.", err)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return failure{"connect", badGateway("The upstream refused the connection.", err)}
	case errors.As(err, &op) && op.Op == "dial":
		return failure{"connect", badGateway("The upstream could not be reached.", err)}
	}
	if errors.As(err, &cert) || errors.As(err, &record) {
		return failure{"connect", badGateway("No trusted TLS connection to the upstream could be made.", err)}
	}
	return failure{"broken", badGateway("The upstream broke off its answer.", err)}
}

// statusClientGone is what the log and the metrics show for a request whose
// client left; nobody receives it.
const statusClientGone = 499

func gatewayTimeout(message string, cause error) *Error {
	return &Error{Status: http.StatusGatewayTimeout, Type: typeTimeout, Message: message, cause: cause}
}

func badGateway(message string, cause error) *Error {
	return &Error{Status: http.StatusBadGateway, Type: typeUnavailable, Message: message, cause: cause}
}
