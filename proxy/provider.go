package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// provider serves the calls of one kind of deployment. Any goroutine calls it.
type provider interface {
	// prepare readies a deployment, once per configuration version.
	prepare(t *target, secret func(ref string) (string, error)) error
	// send sends one call and returns when the answer's headers are there. ctx
	// ends the answer's body too.
	send(ctx context.Context, c *call) (*http.Response, error)
}

// call is one request to one deployment.
type call struct {
	target   *target
	endpoint endpoint
	model    string // as the upstream names it
	stream   bool
	usage    bool // the stream ends with a usage chunk
	hide     bool // the client did not ask for that chunk
	header   http.Header
	query    string
	payload  *payload // nil: the request has no body

	method      string   // "" is POST
	resource    string   // what follows the endpoint's path
	contentType []string // of the body; nil: JSON
}

// dialect is what differs between providers that are reached over HTTP and
// speak OpenAI's JSON.
type dialect interface {
	// address returns where a call goes, below the deployment's base. It is not
	// to be changed.
	address(t *target, e endpoint, model string) *url.URL
	// credential returns the header that carries the deployment's secret.
	credential(secret string) (name, value string)
}

// wire is a provider over HTTP.
type wire struct {
	transport http.RoundTripper
	fresh     http.RoundTripper // every call on a connection of its own
	dialect   dialect
}

var _ provider = (*wire)(nil)

func (w *wire) prepare(t *target, secret func(string) (string, error)) error {
	base, err := url.Parse(t.APIBase)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		// The text of the error would repeat the address, which may hold a secret.
		return errors.New("api_base is not an http or https address")
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath, base.Fragment = "", ""
	t.base = base
	for e := range t.urls {
		u := *base
		u.Path += endpoint(e).path()
		t.urls[e] = &u
	}
	if t.APIKey == "" {
		return nil
	}
	if t.secret, err = secret(t.APIKey); err != nil {
		return fmt.Errorf("resolve api_key: %w", err)
	}
	if t.secret == "" {
		return errors.New("api_key refers to something empty")
	}
	name, value := w.dialect.credential(t.secret)
	t.credential, t.credentialValue = http.CanonicalHeaderKey(name), []string{value}
	return nil
}

func (w *wire) send(ctx context.Context, c *call) (*http.Response, error) {
	t := c.target
	u := w.dialect.address(t, c.endpoint, c.model)
	if q := forwardedQuery(c.query); q != "" || c.resource != "" {
		with := *u
		with.Path += c.resource
		with.RawQuery = joinQuery(u.RawQuery, q)
		u = &with
	}
	h := requestHeader(c.header, c.stream)
	c.describe(h)
	if t.credential != "" {
		h[t.credential] = t.credentialValue
	}
	tr := newTrace()
	req := post.WithContext(tr.in(ctx))
	req.URL, req.Host, req.Header = u, u.Host, h
	if c.method != "" {
		req.Method = c.method
	}
	c.load(req)
	res, err := w.transport.RoundTrip(req)
	if err == nil {
		tr.free()
		return res, nil
	}
	if ctx.Err() != nil || !tr.stale() {
		return nil, err
	}
	// The upstream closed an idle connection just as the call went up on it.
	req = req.WithContext(ctx)
	c.load(req)
	return w.fresh.RoundTrip(req)
}

// load gives a request the call's body, from its start.
func (c *call) load(req *http.Request) {
	if c.payload != nil {
		req.Body, req.GetBody, req.ContentLength = c.payload.open(), c.payload.reopen, int64(c.payload.len())
	}
}

// post is what all requests have in common.
var post = &http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// openAI is the dialect of OpenAI and of whatever imitates it.
type openAI struct{}

var _ dialect = openAI{}

func (openAI) address(t *target, e endpoint, _ string) *url.URL {
	return t.urls[e]
}

func (openAI) credential(secret string) (name, value string) {
	return "Authorization", "Bearer " + secret
}

// azure is the dialect of Azure OpenAI: the deployment's name is in the path,
// the version in the query.
type azure struct{}

var _ dialect = azure{}

// azureVersion is asked for where a deployment names none.
const azureVersion = "2024-10-21"

func (azure) address(t *target, e endpoint, model string) *url.URL {
	u := *t.base
	if isResponse(e) {
		return azureResponses(&u, e, t.APIVersion)
	}
	u.Path += deployments + model + e.path()
	u.RawPath = (&url.URL{Path: t.base.Path}).EscapedPath() + deployments + url.PathEscape(model) + e.path()
	version := t.APIVersion
	if version == "" {
		version = azureVersion
	}
	u.RawQuery = joinQuery(u.RawQuery, "api-version="+url.QueryEscape(version))
	return &u
}

func (azure) credential(secret string) (name, value string) { return "Api-Key", secret }

// joinQuery puts two encoded queries together.
func joinQuery(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "&" + b
}

// forwardedQuery returns the part of a client's query that goes upstream:
// everything but api-version, which is the gateway's to choose, and credentials.
func forwardedQuery(raw string) string {
	if raw == "" {
		return ""
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return ""
	}
	for name, values := range q {
		lower := strings.ToLower(name)
		drop := lower == "api-version" || lower == "key" || strings.Contains(lower, "api-key") || strings.Contains(lower, "api_key")
		for _, v := range values {
			drop = drop || strings.HasPrefix(v, "sk-")
		}
		if drop {
			delete(q, name)
		}
	}
	return q.Encode()
}

// newTransport returns the one transport of all upstreams. connectTimeout is
// asked at every dial. It takes no proxy from the environment, unpacks nothing
// and follows nothing.
func newTransport(connectTimeout func() time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            dialer(connectTimeout),
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        30 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 1 << 20,
		WriteBufferSize:        32 << 10,
		ReadBufferSize:         32 << 10,
	}
}
