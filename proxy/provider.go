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
	// serves returns the endpoint of the upstream's that answers calls of e: e
	// itself, another one if they are to be translated, noEndpoint for none.
	serves(e endpoint) endpoint
	// send sends one call and returns when the answer's headers are there. ctx
	// ends the answer's body too.
	send(ctx context.Context, c *call) (*http.Response, error)
}

// call is one request to one deployment.
type call struct {
	target   *target
	endpoint endpoint // the upstream's; not the client's if the call is translated
	foreign  bool     // it is translated
	model    string   // as the upstream names it
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

// dialect is what differs between providers that are reached over HTTP.
type dialect interface {
	// serves is provider.serves.
	serves(e endpoint) endpoint
	// root returns the path below which endpoints are, of an api_base whose path
	// is given without a slash at its end.
	root(path string) string
	// address returns where a call goes, below the deployment's base. It is not
	// to be changed.
	address(t *target, e endpoint, model string) *url.URL
	// credential returns the header that carries the deployment's secret.
	credential(secret string) (name, value string)
	// complete adds the headers without which the upstream takes no call, and
	// removes what it must not see.
	complete(h http.Header)
	// stand answers a call that the upstream cannot: before it was sent, if res
	// is nil, else in the place of res. It returns nil to let the upstream answer.
	stand(c *call, res *http.Response) *http.Response
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
		u.Path = w.dialect.root(u.Path) + endpoint(e).path()
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

func (w *wire) serves(e endpoint) endpoint { return w.dialect.serves(e) }

func (w *wire) send(ctx context.Context, c *call) (*http.Response, error) {
	t := c.target
	if res := w.dialect.stand(c, nil); res != nil {
		return res, nil
	}
	u := w.dialect.address(t, c.endpoint, c.model)
	q := forwardedQuery(c.query)
	if c.foreign {
		q = "" // it speaks of another endpoint
	}
	if q != "" || c.resource != "" {
		with := *u
		with.Path += c.resource
		with.RawQuery = joinQuery(u.RawQuery, q)
		u = &with
	}
	h := requestHeader(c.header, c.stream)
	c.describe(h)
	if c.foreign {
		onlyGeneral(h, c.endpoint.protocol())
	}
	w.dialect.complete(h)
	if t.credential != "" {
		h[t.credential] = t.credentialValue
	}
	tr := newTrace()
	req := post.WithContext(tr.in(ctx))
	req.URL, req.Host, req.Header = u, u.Host, h
	if c.method != "" {
		req.Method = c.method
	}
	res, err := w.trip(ctx, req, c, tr)
	if err != nil {
		return nil, err
	}
	if own := w.dialect.stand(c, res); own != nil {
		_ = res.Body.Close() // nobody wants the rest of it
		return own, nil
	}
	return res, nil
}

// trip sends a request, and once again where it met a connection that the
// upstream was closing.
func (w *wire) trip(ctx context.Context, req *http.Request, c *call, tr *trace) (*http.Response, error) {
	c.load(req)
	res, err := w.transport.RoundTrip(req)
	if err == nil {
		tr.free()
		return res, nil
	}
	if ctx.Err() != nil || !tr.stale() {
		return nil, err
	}
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

// serves: Messages are translated, and their tokens estimated here.
func (openAI) serves(e endpoint) endpoint {
	if e == messages {
		return chatCompletions
	}
	return e
}

func (openAI) root(path string) string { return path }

func (openAI) complete(http.Header) {}

func (openAI) stand(c *call, _ *http.Response) *http.Response {
	if c.endpoint == countTokens {
		return estimatedCount(c)
	}
	return nil
}

func (openAI) credential(secret string) (name, value string) {
	return "Authorization", "Bearer " + secret
}

// azure is the dialect of Azure OpenAI: the deployment's name is in the path,
// the version in the query.
type azure struct{ openAI }

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
