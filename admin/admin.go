package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sluice/fsm"
)

// Admin answers the management routes. Any goroutine calls ServeHTTP.
type Admin struct {
	o      Options
	origin *http.CrossOriginProtection

	digesting sync.Mutex // one caller at a time has the state encoded
}

var _ http.Handler = (*Admin)(nil)

// New returns an Admin. It starts nothing and needs no closing.
func New(o Options) (*Admin, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("admin options: %w", err)
	}
	return &Admin{o: o, origin: http.NewCrossOriginProtection()}, nil
}

// call is one request on its way through a handler.
type call struct {
	route  *route
	arg    string // the {key} of the path
	caller Caller
	query  url.Values
	body   fields
	now    time.Time // one reading for the whole request
	write  fsm.WriteOptions
	// idempotency is the header Idempotency-Key, "" for none.
	idempotency string
	target      string // what the audit line names; set by the handler, never a secret
}

// ServeHTTP answers any path: those that Owns does not know with a JSON 404.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Sluice-Node", a.o.NodeID)
	w.Header().Set("X-Litellm-Call-Id", a.callID(r))
	methods, arg := lookup(r.URL.Path)
	rt, err := choose(methods, r.Method)
	if err != nil {
		err.write(w, strings.HasPrefix(r.URL.Path, "/team/"))
		return
	}
	if err := a.serve(w, r, &call{route: rt, arg: arg, now: a.now()}); err != nil {
		a.refuse(w, rt, err)
	}
}

// serve takes a request through its stations: who calls, what is asked, the handler.
func (a *Admin) serve(w http.ResponseWriter, r *http.Request, c *call) error {
	if err := a.admit(r, c); err != nil {
		return err
	}
	if c.route.raw != nil {
		return c.route.raw(a, w, r)
	}
	var err error
	if c.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return badRequest("", "The query string is malformed.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.Timeout)
	defer cancel()
	if c.route.method == http.MethodPost {
		if c.idempotency, err = idempotencyKey(r.Header); err != nil {
			return err
		}
		c.write.IdempotencyKey = scopedKey(c.route, c.idempotency)
		if c.body, err = readBody(w, r, a.o.MaxBody); err != nil {
			return err
		}
	} else if !a.refresh(ctx) {
		w.Header().Set("X-Sluice-Stale", "true")
	}
	answer, err := c.route.handle(a, ctx, c)
	a.audit(c, err)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// admit decides who may go on. Credentials are looked at before the body.
func (a *Admin) admit(r *http.Request, c *call) error {
	if c.route.access == accessOpen || c.route.access == accessMetrics && a.o.OpenMetrics {
		return nil
	}
	// A browser page of another site has no business here, even with a key.
	if err := a.origin.Check(r); err != nil {
		return &Error{Status: http.StatusForbidden, Message: "Cross-origin management requests are refused."}
	}
	caller, err := a.o.Authenticate(r)
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			return own
		}
		return &Error{Status: http.StatusUnauthorized, Param: "None", Message: "Authentication Error, Invalid proxy server token passed."}
	}
	c.caller = caller
	if caller.Master || c.route.access == accessSelf {
		return nil
	}
	return &Error{Status: http.StatusUnauthorized, Param: "None", Message: fmt.Sprintf(
		"Authentication Error, Only proxy admin can be used to generate, delete, update info for new keys/users/teams. Route=%s. Your role=internal_user. Your user_id=%s",
		c.route.path, a.userOf(caller))}
}

// userOf returns the caller's user id, masked, or None.
func (a *Admin) userOf(c Caller) string {
	if k, ok := a.o.State.View().Key(c.KeyID); ok && k.UserID != "" {
		return mask(k.UserID)
	}
	return "None"
}

// refresh reports whether local reads are current. Without a leader they go on
// with what is here, so that an operator can look at a broken cluster.
func (a *Admin) refresh(ctx context.Context) bool {
	if a.o.Refresh == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	return a.o.Refresh(ctx) == nil
}

// refuse is the one place that turns an error into a response.
func (a *Admin) refuse(w http.ResponseWriter, rt *route, err error) {
	e := a.explain(err)
	if e == nil {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			e = explainTimeout(rt)
		} else {
			a.o.Logger.Error("management request failed", "route", rt.path, "error", err)
			e = &Error{Status: http.StatusInternalServerError, Message: "The request failed inside the gateway; its log says why."}
		}
	}
	e.write(w, rt.team)
}

// explainTimeout: a write that was not answered in time may still happen.
func explainTimeout(rt *route) *Error {
	if rt.method == http.MethodPost {
		return &Error{Status: http.StatusServiceUnavailable, Type: "outcome_unknown", RetryAfter: time.Second,
			Message: "outcome unknown: the cluster did not answer in time. Send the same request with the same Idempotency-Key again; it will not be done twice."}
	}
	return &Error{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Message: "The cluster did not answer in time."}
}

// audit leaves one line per management write, with a prefix of the hash at most.
func (a *Admin) audit(c *call, err error) {
	if c.route.method != http.MethodPost {
		return
	}
	outcome := "done"
	if err != nil {
		outcome = "refused"
		if e := a.explain(err); e != nil && e.Type == "outcome_unknown" {
			outcome = "unknown"
		}
	}
	a.o.Logger.Info("management write", "who", "master", "route", c.route.path, "target", c.target, "outcome", outcome)
}

// now returns the time in UTC with the precision that answers show.
func (a *Admin) now() time.Time { return a.o.Now().UTC().Truncate(time.Microsecond) }

// callID returns the caller's own call id if it is a sane one, else a new one.
func (a *Admin) callID(r *http.Request) string {
	if id := r.Header.Get("X-Litellm-Call-Id"); printable(id, 128) {
		return id
	}
	id, err := newUUID(a.o.Rand)
	if err != nil {
		return "unknown"
	}
	return id
}

func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || !printable(values[0], 255) {
		return "", badRequest("Idempotency-Key", "Idempotency-Key must be one value of 1 to 255 printable ASCII characters.")
	}
	return values[0], nil
}

// scopedKey keeps apart what was sent to different routes with one
// Idempotency-Key: the store knows the kind of a write, but blocking and
// unblocking are both updates to it.
func scopedKey(rt *route, key string) string {
	if key == "" {
		return ""
	}
	return hashSecret(rt.path + "\x00" + key)
}

// printable reports whether s is 1 to most visible ASCII characters.
func printable(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// newUUID returns a random version 4 UUID.
func newUUID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-"), nil
}
