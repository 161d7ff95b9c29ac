package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// endpoint is one operation of the data plane.
type endpoint uint8

const (
	noEndpoint endpoint = iota
	chatCompletions
	completions
	embeddings
	messages
	countTokens
	listModels
	showModel
)

// protocol is whose wire format an endpoint speaks: that of its errors, its
// streams and its usage.
type protocol uint8

const (
	openAIProtocol protocol = iota
	anthropicProtocol
)

// operation is what distinguishes an endpoint.
type operation struct {
	path     string // below an API base, and below /v1 or nothing here
	methods  []string
	protocol protocol
	streams  bool // answers can be event streams that carry usage on request
	azure    bool // also below /openai/deployments/{model}
	free     bool // not admitted by the limiter and counted nowhere
}

var (
	gets  = []string{http.MethodGet, http.MethodHead}
	posts = []string{http.MethodPost}
)

// operations by endpoint.
var operations = [...]operation{
	chatCompletions: {path: "/chat/completions", methods: posts, streams: true, azure: true},
	completions:     {path: "/completions", methods: posts, streams: true, azure: true},
	embeddings:      {path: "/embeddings", methods: posts, azure: true},
	messages:        {path: "/messages", methods: posts, protocol: anthropicProtocol, streams: true},
	countTokens:     {path: "/messages/count_tokens", methods: posts, protocol: anthropicProtocol, free: true},
	listModels:      {path: "/models", methods: gets},
	showModel:       {path: "/models", methods: gets}, // and a model's name
}

// path returns the endpoint's path below an API base.
func (e endpoint) path() string { return operations[e].path }

// protocol returns whose wire format the endpoint speaks.
func (e endpoint) protocol() protocol { return operations[e].protocol }

// streams reports whether answers of the endpoint can be event streams that
// carry usage on request.
func (e endpoint) streams() bool { return operations[e].streams }

// free reports whether requests of the endpoint are counted in no limit.
func (e endpoint) free() bool { return operations[e].free }

// spoken returns the protocol in which a request is answered: its endpoint's,
// and where that does not tell, the one that its headers are of.
func spoken(e endpoint, h http.Header) protocol {
	switch e {
	case noEndpoint, listModels, showModel:
		if len(h["Anthropic-Version"]) > 0 {
			return anthropicProtocol
		}
	}
	return e.protocol()
}

// allow returns the value of Allow.
func (e endpoint) allow() string { return strings.Join(operations[e].methods, ", ") }

// allows reports whether method is one the endpoint answers.
func (e endpoint) allows(method string) bool { return slices.Contains(operations[e].methods, method) }

const deployments = "/openai/deployments/"

// match finds the endpoint of a cleaned path, and the model that the path
// names ("" for none).
func match(path string) (e endpoint, model string) {
	if rest, ok := strings.CutPrefix(path, deployments); ok {
		for i := range operations {
			if !operations[i].azure {
				continue
			}
			if model, ok := strings.CutSuffix(rest, operations[i].path); ok && model != "" {
				return endpoint(i), model
			}
		}
		return noEndpoint, ""
	}
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
		path = path[len(path)-len(rest)-1:]
	}
	if id, ok := strings.CutPrefix(path, "/models/"); ok {
		return showModel, id
	}
	return byPath[path], ""
}

// byPath finds endpoints by their path.
var byPath = func() map[string]endpoint {
	m := make(map[string]endpoint, len(operations))
	for i := range operations {
		if e := endpoint(i); e != noEndpoint && e != showModel {
			m[operations[i].path] = e
		}
	}
	return m
}()
