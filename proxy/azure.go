package proxy

import (
	"net/http"
	"net/url"
)

// azureResponses returns where Azure has its responses: not below a deployment,
// whose name is in the body. base is changed. Without a version it is the
// interface that needs none.
func azureResponses(base *url.URL, e endpoint, version string) *url.URL {
	if version == "" {
		base.Path += "/openai/v1" + e.path()
		return base
	}
	base.Path += "/openai" + e.path()
	base.RawQuery = joinQuery(base.RawQuery, "api-version="+url.QueryEscape(version))
	return base
}

// describe puts on a call's headers what its body is, and what may answer it.
func (c *call) describe(h http.Header) {
	switch {
	case c.payload == nil:
		delete(h, "Content-Type")
	case c.contentType != nil:
		h["Content-Type"] = c.contentType
	}
	if c.endpoint == speech && c.header["Accept"] == nil {
		h["Accept"] = anyType
	}
}

var anyType = []string{"*/*"}
