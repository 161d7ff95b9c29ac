package proxy

import (
	"net/http"
	"net/url"
	"strings"
)

// anthropic is the dialect of Anthropic and of whatever imitates it: the
// Messages API. Chat completions are translated.
type anthropic struct{}

var _ dialect = anthropic{}

// anthropicVersion is sent where the client names none.
var anthropicVersion = []string{"2023-06-01"}

func (anthropic) serves(e endpoint) endpoint {
	switch e {
	case messages, countTokens:
		return e
	case chatCompletions:
		return messages
	}
	return noEndpoint
}

// root: the API's base is written without /v1, as Anthropic's clients have it;
// with it works too.
func (anthropic) root(path string) string {
	if strings.HasSuffix(path, "/v1") {
		return path
	}
	return path + "/v1"
}

func (anthropic) address(t *target, e endpoint, _ string) *url.URL { return t.urls[e] }

func (anthropic) credential(secret string) (name, value string) { return "X-Api-Key", secret }

func (anthropic) complete(h http.Header) {
	if len(h["Anthropic-Version"]) == 0 {
		h["Anthropic-Version"] = anthropicVersion
	}
}

// stand: many an imitation does not count tokens. (A model that is unknown
// there is found out by the next call of the client.)
func (anthropic) stand(c *call, res *http.Response) *http.Response {
	if c.endpoint != countTokens || res == nil {
		return nil
	}
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return estimatedCount(c)
	}
	return nil
}
