package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// CORS lets pages of some origins call the data plane. Keys travel in headers
// that a page has to set itself, so nothing is allowed with a browser's own
// credentials. A nil *CORS lets none.
type CORS struct {
	any     bool
	origins map[string]bool
}

// NewCORS returns what gateway.cors_origins asks for: "*", or origins such as
// "https://app.example.com". None: nil. The error names the origin at fault.
func NewCORS(origins []string) (*CORS, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	c := &CORS{origins: make(map[string]bool, len(origins))}
	for _, o := range origins {
		if o == "*" {
			c.any = true
			continue
		}
		if !isOrigin(o) {
			return nil, fmt.Errorf(`%q is not an origin; write "*", or scheme, host and port as in "https://app.example.com"`, o)
		}
		c.origins[strings.ToLower(o)] = true
	}
	return c, nil
}

// isOrigin reports whether s is a scheme with a host and nothing behind it.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == s && !strings.ContainsAny(s, "* ,")
}

// Answer puts what a page's browser has to see on the answer to r, and answers
// r itself if it is a preflight; done tells so. It is called before anything
// else is decided.
func (c *CORS) Answer(w http.ResponseWriter, r *http.Request) (done bool) {
	if c == nil {
		return false
	}
	h := w.Header()
	if !c.any {
		h["Vary"] = append(h["Vary"], "Origin")
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return false
	}
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	origin := origins[0]
	if len(origins) > 1 || !c.any && !c.origins[origin] {
		if preflight {
			WriteError(w, r, &Error{Status: http.StatusForbidden, Type: typeInvalid, Message: "Pages of this origin may not call this gateway (gateway.cors_origins)."})
		}
		return preflight
	}
	if c.any {
		origin = "*"
	}
	h["Access-Control-Allow-Origin"] = []string{origin}
	if !preflight {
		h["Access-Control-Expose-Headers"] = exposed
		return false
	}
	h["Access-Control-Allow-Methods"] = corsMethods
	h["Access-Control-Max-Age"] = corsAge
	if asked := askedHeaders(r.Header["Access-Control-Request-Headers"]); asked != "" {
		h["Access-Control-Allow-Headers"] = []string{asked}
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

var (
	corsMethods = []string{"GET, HEAD, POST, DELETE"}
	corsAge     = []string{"600"} // seconds
)

// askedHeaders returns the headers that a preflight asks for, without what can
// be none.
func askedHeaders(values []string) string {
	var names []string
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); isToken(name) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// exposed are the headers of an answer that a page may read.
var exposed = func() []string {
	names := []string{
		"Retry-After", "X-Request-Id", "Request-Id", "X-Should-Retry", "Openai-Processing-Ms", "Openai-Version",
		"Rate_limit_type", "Reset_at", "X-Sluice-Node", "X-Sluice-Limits", "X-Sluice-Limited-By", "X-Sluice-Explain",
		"X-Litellm-Call-Id", "X-Litellm-Model-Id", "X-Litellm-Model-Group", "X-Litellm-Priority", "X-Litellm-Saturation",
		"X-Litellm-Overhead-Duration-Ms", "X-Litellm-Attempted-Retries", "X-Litellm-Attempted-Fallbacks",
	}
	for _, scope := range rateHeaders {
		for _, dim := range scope[:2] {
			names = append(names, dim.limit, dim.remaining)
		}
	}
	slices.Sort(names)
	return []string{strings.ToLower(strings.Join(slices.Compact(names), ", "))}
}()
