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
	responses
	compactResponses
	countInput
	oneResponse
	responseItems
	cancelResponse
	moderations
	generateImages
	editImages
	varyImages
	transcriptions
	translations
	speech
	rerank
)

// protocol is whose wire format an endpoint speaks: that of its errors, its
// streams and its usage.
type protocol uint8

const (
	openAIProtocol protocol = iota
	anthropicProtocol
)

// product is what an endpoint's answers are made of. It decides about an
// estimate where an answer names no usage.
type product uint8

const (
	figures product = iota // vectors, verdicts, orders: no tokens are generated
	texts                  // as many tokens as its length says
	media                  // images and sound: their length says nothing
)

// operation is what distinguishes an endpoint.
type operation struct {
	path     string // below an API base, and below /v1 or nothing here
	methods  []string
	protocol protocol
	streams  bool // answers can be event streams that carry usage on request
	typed    bool // answers can be event streams that name the type of each event, and carry usage anyhow
	form     bool // requests can be multipart forms
	free     bool // not admitted by the limiter and counted nowhere: nothing is generated
	azure    bool // also below /openai/deployments/{model}
	product  product
}

var (
	gets  = []string{http.MethodGet, http.MethodHead}
	posts = []string{http.MethodPost}
)

// operations by endpoint.
var operations = [...]operation{
	chatCompletions: {path: "/chat/completions", methods: posts, streams: true, azure: true, product: texts},
	completions:     {path: "/completions", methods: posts, streams: true, azure: true, product: texts},
	embeddings:      {path: "/embeddings", methods: posts, azure: true},
	messages:        {path: "/messages", methods: posts, protocol: anthropicProtocol, streams: true, product: texts},
	countTokens:     {path: "/messages/count_tokens", methods: posts, protocol: anthropicProtocol, free: true},
	listModels:      {path: "/models", methods: gets},
	showModel:       {path: "/models", methods: gets}, // and a model's name

	responses:        {path: "/responses", methods: posts, typed: true, product: texts},
	compactResponses: {path: "/responses/compact", methods: posts, product: texts},
	countInput:       {path: "/responses/input_tokens", methods: posts, free: true},
	oneResponse:      {path: "/responses", methods: []string{http.MethodGet, http.MethodDelete}, typed: true}, // and a response's id
	responseItems:    {path: "/responses", methods: []string{http.MethodGet}},                                 // and /{id}/input_items
	cancelResponse:   {path: "/responses", methods: posts},                                                    // and /{id}/cancel

	moderations:    {path: "/moderations", methods: posts},
	generateImages: {path: "/images/generations", methods: posts, typed: true, azure: true, product: media},
	editImages:     {path: "/images/edits", methods: posts, typed: true, form: true, azure: true, product: media},
	varyImages:     {path: "/images/variations", methods: posts, form: true, product: media},
	transcriptions: {path: "/audio/transcriptions", methods: posts, typed: true, form: true, azure: true, product: texts},
	translations:   {path: "/audio/translations", methods: posts, typed: true, form: true, azure: true, product: texts},
	speech:         {path: "/audio/speech", methods: posts, typed: true, azure: true, product: media},
	rerank:         {path: "/rerank", methods: posts},
}

// path returns the endpoint's path below an API base.
func (e endpoint) path() string { return operations[e].path }

// protocol returns whose wire format the endpoint speaks.
func (e endpoint) protocol() protocol { return operations[e].protocol }

// streams reports whether answers of the endpoint can be event streams that
// carry usage on request.
func (e endpoint) streams() bool { return operations[e].streams }

// typed reports whether answers of the endpoint can be event streams of typed
// events.
func (e endpoint) typed() bool { return operations[e].typed }

// product returns what answers of the endpoint are made of.
func (e endpoint) product() product { return operations[e].product }

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

// match finds the endpoint of a cleaned path, and the model, or the id of the
// response, that the path names ("" for none).
func match(path string) (e endpoint, named string) {
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
	if e, ok := byPath[path]; ok {
		return e, ""
	}
	if rest, ok := strings.CutPrefix(path, "/responses/"); ok {
		return matchResponse(rest)
	}
	if path == "/v2/rerank" { // Cohere's clients are at version 2; the shape is one
		return rerank, ""
	}
	return noEndpoint, ""
}

// matchResponse finds the endpoint of what follows /responses/.
func matchResponse(rest string) (e endpoint, id string) {
	id, what, deeper := strings.Cut(rest, "/")
	switch {
	case !saneID(id):
		return noEndpoint, ""
	case !deeper:
		return oneResponse, id
	case what == "input_items":
		return responseItems, id
	case what == "cancel":
		return cancelResponse, id
	}
	return noEndpoint, ""
}

// byPath finds endpoints by their path, where nothing follows it.
var byPath = func() map[string]endpoint {
	m := make(map[string]endpoint, len(operations))
	for i := range operations {
		switch e := endpoint(i); e {
		case noEndpoint, showModel, oneResponse, responseItems, cancelResponse:
		default:
			m[operations[i].path] = e
		}
	}
	return m
}()
