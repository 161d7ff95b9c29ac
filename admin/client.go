package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ClientOptions configure a Client. Server and MasterKey are required.
type ClientOptions struct {
	Server    string // base URL of any node
	MasterKey string
	HTTP      *http.Client // default: a client without redirects
	// Retries is how often a request that a node answered with 503 is sent
	// again, with the same Idempotency-Key. Default 3; negative: never.
	Retries int
	// Sleep waits between retries; it returns early with ctx's error. Default: the real clock.
	Sleep func(ctx context.Context, d time.Duration) error
	Rand  io.Reader // default crypto/rand
}

// Client calls the management API. Its methods return *Error for what a node
// refused and ErrUnreachable, wrapped, if no node answered. Raw keys are hashed
// before they are sent, so they reach no access log. Any goroutine may call.
type Client struct {
	o    ClientOptions
	base *url.URL
}

// ErrUnreachable is returned when no answer came from the server. For a write
// the outcome is then unknown.
var ErrUnreachable = errors.New("the server did not answer")

const (
	defaultRetries = 3
	maxAnswer      = 256 << 20 // bytes of one response
	maxRetryWait   = 5 * time.Second
)

// NewClient returns a client of one node.
func NewClient(o ClientOptions) (*Client, error) {
	base, err := url.Parse(o.Server)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("server %q is not an http or https URL; write it like http://127.0.0.1:4000", clip(o.Server))
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("the server URL must hold scheme, host and path only")
	}
	if !printable(o.MasterKey, 1<<12) {
		return nil, errors.New("the master key is missing or holds blanks or control characters")
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	switch {
	case o.Retries == 0:
		o.Retries = defaultRetries
	case o.Retries < 0:
		o.Retries = 0
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	return &Client{o: o, base: base}, nil
}

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

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	out := new(T)
	if err := c.do(ctx, http.MethodGet, path, query, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

func post[T any](ctx context.Context, c *Client, path string, body any) (*T, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	if string(b) == "null" {
		b = []byte("{}") // Fields without a member
	}
	out := new(T)
	if err := c.do(ctx, http.MethodPost, path, nil, b, out); err != nil {
		return nil, err
	}
	return out, nil
}

// do sends one request, again while the answer is 503: nothing that management
// does happens twice under one Idempotency-Key.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte, out any) error {
	id, err := newUUID(c.o.Rand)
	if err != nil {
		return fmt.Errorf("make Idempotency-Key: %w", err)
	}
	for try := 0; ; try++ {
		err := c.once(ctx, method, path, query, body, id, out)
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || try >= c.o.Retries {
			return err
		}
		if c.o.Sleep(ctx, min(max(refused.RetryAfter, 100*time.Millisecond), maxRetryWait)) != nil {
			return err // the refusal says more than the deadline
		}
	}
}

func (c *Client) once(ctx context.Context, method, path string, query url.Values, body []byte, id string, out any) error {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.o.MasterKey)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", id)
	}
	resp, err := c.o.HTTP.Do(req)
	if err != nil {
		return c.unreachable(ctx, method, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.unreachable(ctx, method, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, b)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // metadata is sent back by updates, with all its digits
	if err := dec.Decode(out); err != nil {
		return fmt.Errorf("%s is not sluice: its answer to %s could not be read", c.base.Host, path)
	}
	return nil
}

// unreachable words a transport error without the URL, whose query may name a key.
func (c *Client) unreachable(ctx context.Context, method string, err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	var op *net.OpError
	sent := !errors.As(err, &op) || op.Op != "dial"
	if op != nil {
		err = op.Err
	}
	if cause := ctx.Err(); cause != nil {
		err = cause
	}
	if method == http.MethodPost && sent {
		return fmt.Errorf("%w at %s, so the change may or may not have been made: %w", ErrUnreachable, c.base.Host, err)
	}
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base.Host, err)
}

// refusal reads an error response; anything may have answered, so every part may be missing.
func refusal(resp *http.Response, body []byte) *Error {
	e := &Error{Status: resp.StatusCode}
	var env struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &env) == nil && env.Error.Message != "" {
		e.Message, e.Type, e.Param = oneLine(env.Error.Message), env.Error.Type, deref(env.Error.Param)
	} else {
		e.Message = "the server answered " + strconv.Itoa(resp.StatusCode) + " without saying why; is it sluice?"
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, 3600)) * time.Second
	}
	return e
}

// oneLine keeps what a server says on one line of a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
