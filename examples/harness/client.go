package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Client talks to one node with one credential. It never retries. Any goroutine may use it.
type Client struct {
	base string
	key  string
	http *http.Client
}

// Admin returns a client that holds the master key.
func (n *Node) Admin() *Client { return n.As(n.masterKey) }

// As returns a client that holds a virtual key; "" sends no credential.
func (n *Node) As(key string) *Client { return &Client{base: n.URL(), key: key, http: n.http} }

// Reply is an HTTP answer as it came.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// ErrorMessage returns error.message of the OpenAI envelope, "" if there is none.
func (r *Reply) ErrorMessage() string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(r.Body, &e) != nil {
		return ""
	}
	return e.Error.Message
}

// LimitedBy returns the header that says which limit refused.
func (r *Reply) LimitedBy() string { return r.Header.Get("X-Sluice-Limited-By") }

// StatusError is an answer other than the one that was hoped for.
type StatusError struct {
	Method, Path string
	Reply        *Reply
}

// Error shows the status and the start of the body.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: status %d: %.300s", e.Method, e.Path, e.Reply.Status, e.Reply.Body)
}

// Do sends a request and reads the answer; a status is never an error. A body
// that is a []byte or string goes out as it is, anything else as JSON.
func (c *Client) Do(ctx context.Context, method, path string, body any, header http.Header) (*Reply, error) {
	resp, err := c.Open(ctx, method, path, body, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: b}, nil
}

// Open is Do for an answer that is read as it arrives. The caller closes the body.
func (c *Client) Open(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		payload = bytes.NewReader(b)
	case string:
		payload = bytes.NewReader([]byte(b))
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", method, path, err)
		}
		payload = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for k, v := range header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	if req.Header.Get("Idempotency-Key") != "" {
		// net/http takes it for leave to send the request again by itself, after
		// which nobody can say what an error means. It cannot without the body.
		req.GetBody = nil
	}
	return c.http.Do(req)
}

// Get is Do without a body.
func (c *Client) Get(ctx context.Context, path string) (*Reply, error) {
	return c.Do(ctx, http.MethodGet, path, nil, nil)
}

// call sends in and decodes a 200 into out; other statuses are a *StatusError.
func (c *Client) call(ctx context.Context, method, path string, in, out any, header http.Header) error {
	r, err := c.Do(ctx, method, path, in, header)
	if err != nil {
		return err
	}
	if r.Status != http.StatusOK {
		return &StatusError{Method: method, Path: path, Reply: r}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(r.Body, out); err != nil {
		return fmt.Errorf("decode the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// KeySpec is what a new key may be given; zero fields are left out.
type KeySpec struct {
	Secret      string         `json:"key,omitempty"`
	Alias       string         `json:"key_alias,omitempty"`
	TeamID      string         `json:"team_id,omitempty"`
	Models      []string       `json:"models,omitempty"`
	RPM         *int64         `json:"rpm_limit,omitempty"`
	TPM         *int64         `json:"tpm_limit,omitempty"`
	MaxParallel *int64         `json:"max_parallel_requests,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Priority    string         `json:"-"` // put into the metadata
	Once        string         `json:"-"` // Idempotency-Key
}

// Key is what /key/generate answers.
type Key struct {
	Secret string `json:"key"`
	Hash   string `json:"token"`
}

// CreateKey makes a virtual key.
func (c *Client) CreateKey(ctx context.Context, spec KeySpec) (Key, error) {
	if spec.Priority != "" {
		spec.Metadata = map[string]any{"priority": spec.Priority}
	}
	var header http.Header
	if spec.Once != "" {
		header = http.Header{"Idempotency-Key": {spec.Once}}
	}
	var k Key
	if err := c.call(ctx, http.MethodPost, "/key/generate", spec, &k, header); err != nil {
		return Key{}, err
	}
	if k.Secret == "" {
		return Key{}, errors.New("POST /key/generate: the answer holds no key")
	}
	return k, nil
}

// TeamSpec is what a new team may be given.
type TeamSpec struct {
	Alias    string         `json:"team_alias,omitempty"`
	RPM      *int64         `json:"rpm_limit,omitempty"`
	TPM      *int64         `json:"tpm_limit,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// CreateTeam makes a team and returns its id.
func (c *Client) CreateTeam(ctx context.Context, spec TeamSpec) (string, error) {
	var t struct {
		ID string `json:"team_id"`
	}
	err := c.call(ctx, http.MethodPost, "/team/new", spec, &t, nil)
	return t.ID, err
}

// Chat sends one short chat request.
func (c *Client) Chat(ctx context.Context, model string) (*Reply, error) {
	return c.Do(ctx, http.MethodPost, "/v1/chat/completions", chatBody(model, false), nil)
}

// ChatStream opens a streamed chat answer. The caller closes the body.
func (c *Client) ChatStream(ctx context.Context, model string) (*http.Response, error) {
	return c.Open(ctx, http.MethodPost, "/v1/chat/completions", chatBody(model, true), nil)
}

func chatBody(model string, stream bool) map[string]any {
	body := map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": "Hello world!"}}}
	if stream {
		body["stream"] = true
	}
	return body
}

// Amount is a limit and what is used of it; Limit is nil where there is none.
type Amount struct {
	Limit *int64 `json:"limit"`
	Used  int64  `json:"used"`
}

// Pool is one priority's part of a model; Priority is nil for the default pool.
type Pool struct {
	Priority *string `json:"priority"`
	Share    float64 `json:"share"`
	RPM      Amount  `json:"rpm"`
	TPM      Amount  `json:"tpm"`
}

// ModelLimits is one model of GET /limits. Times are nil when no window is open.
type ModelLimits struct {
	Model         string     `json:"model"`
	WindowSeconds float64    `json:"window_seconds"`
	StartedAt     *time.Time `json:"window_started_at"`
	ResetsAt      *time.Time `json:"resets_at"`
	RPM           Amount     `json:"rpm"`
	TPM           Amount     `json:"tpm"`
	Saturation    float64    `json:"saturation"`
	Threshold     float64    `json:"threshold"`
	Mode          string     `json:"mode"`
	Pools         []Pool     `json:"pools"`
}

// Limits returns the live state of one model.
func (c *Client) Limits(ctx context.Context, model string) (*ModelLimits, error) {
	var l struct {
		Models []ModelLimits `json:"models"`
	}
	path := "/limits?model=" + url.QueryEscape(model)
	if err := c.call(ctx, http.MethodGet, path, nil, &l, nil); err != nil {
		return nil, err
	}
	if len(l.Models) != 1 || l.Models[0].Model != model {
		return nil, fmt.Errorf("GET %s: it lists %d models, not that one", path, len(l.Models))
	}
	return &l.Models[0], nil
}

// Status is GET /cluster/status.
type Status struct {
	NodeID  string `json:"node_id"`
	State   string `json:"state"`
	Term    uint64 `json:"term"`
	Applied uint64 `json:"applied_index"`
	Limits  string `json:"limits"`
	Leader  *struct {
		ID      string `json:"id"`
		Address string `json:"address"`
	} `json:"leader"`
	Nodes []struct {
		ID        string `json:"id"`
		Voter     bool   `json:"voter"`
		Leader    bool   `json:"leader"`
		Reachable bool   `json:"reachable"`
		Applied   uint64 `json:"applied_index"`
	} `json:"nodes"`
}

// Status returns what the node knows of its cluster.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var s Status
	if err := c.call(ctx, http.MethodGet, "/cluster/status", nil, &s, nil); err != nil {
		return nil, err
	}
	return &s, nil
}
