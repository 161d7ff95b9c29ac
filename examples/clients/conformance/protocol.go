package main

// Call is one thing that a driver does with its client library.
type Call struct {
	Do      string            `json:"do"`       // see the constants
	BaseURL string            `json:"base_url"` // without /v1
	Key     string            `json:"key"`
	Model   string            `json:"model"`
	Headers map[string]string `json:"headers,omitempty"` // sent besides the library's own

	Stream     bool `json:"stream,omitempty"`
	Usage      bool `json:"usage,omitempty"`      // ask a chat stream for its usage
	Tools      bool `json:"tools,omitempty"`      // declare the function weather(city)
	Structured bool `json:"structured,omitempty"` // ask for {"city": string, "degrees": integer} by the library's own means
	Bytes      int  `json:"bytes,omitempty"`      // length of the prompt; 0 means a short one

	DefaultRetries bool `json:"default_retries,omitempty"` // else none
	TimeoutMS      int  `json:"timeout_ms,omitempty"`      // of the library; 0 means its default
	LeaveAfter     int  `json:"leave_after,omitempty"`     // close the stream after so many events with text
}

// What a driver can be asked to do.
const (
	doChat        = "chat"
	doCompletions = "completions"
	doEmbeddings  = "embeddings" // of two inputs, in the library's default format
	doModels      = "models"     // list them with OpenAI's library
	doResponses   = "responses"
	doStored      = "stored" // create a response, get it, delete it, get it again
	doMessages    = "messages"
	doCountTokens = "count_tokens"
	doListClaude  = "claude_models" // list them with Anthropic's library
)

// Result is what a library returned, in words that all of them share.
type Result struct {
	Text      string      `json:"text,omitempty"`
	Thinking  string      `json:"thinking,omitempty"`
	Signature string      `json:"signature,omitempty"`
	Finish    string      `json:"finish,omitempty"` // finish_reason, stop_reason or status, as the protocol has it
	Tools     []Tool      `json:"tools,omitempty"`
	Usage     *Usage      `json:"usage,omitempty"`
	Parsed    *Weather    `json:"parsed,omitempty"` // what the library made of structured output
	Vectors   [][]float64 `json:"vectors,omitempty"`
	Models    []string    `json:"models,omitempty"`
	Tokens    int64       `json:"tokens,omitempty"`  // of count_tokens
	Stored    string      `json:"stored,omitempty"`  // text of the response as it was read back
	Deleted   bool        `json:"deleted,omitempty"` // and it was gone afterwards
	Left      bool        `json:"left,omitempty"`    // the stream was closed by the client
	Failure   *Failure    `json:"failure,omitempty"`
	// Skip says why the driver has no way to do this.
	Skip string `json:"skip,omitempty"`
}

// Tool is a call that the model made.
type Tool struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Usage is what the library reported. Input holds the cached tokens too,
// whatever the protocol does.
type Usage struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Cached int64 `json:"cached"`
}

// Weather is what structured output is parsed into.
type Weather struct {
	City    string `json:"city"`
	Degrees int    `json:"degrees"`
}

// Failure is an error that the library raised.
type Failure struct {
	Kind       string `json:"kind"`
	Status     int    `json:"status,omitempty"`
	Type       string `json:"type,omitempty"` // error.type of the body
	Message    string `json:"message,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"` // the header
	LimitedBy  string `json:"limited_by,omitempty"`  // the header x-sluice-limited-by
	RequestID  string `json:"request_id,omitempty"`
}

// Kinds of failures.
const (
	failedStatus  = "status"  // an answer with an error status, with the library's class for it
	failedStream  = "stream"  // an error event in a stream
	failedConnect = "connect" // the connection broke
	failedTimeout = "timeout" // the library's own
	failedOther   = "other"   // anything else: a library that choked
)
