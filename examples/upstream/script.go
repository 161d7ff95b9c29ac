package upstream

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"
)

// Forever as Step.Times makes a step answer every further request.
const Forever = -1

// Match selects the requests that a script answers. An empty field matches all;
// of two scripts that fit, the one that names the model goes first.
type Match struct {
	Model string `json:"model,omitempty"`
	Path  string `json:"path,omitempty"` // exact, such as "/v1/embeddings"
}

// Step is one scripted answer. Its zero value is the default answer, once.
type Step struct {
	Times   int               `json:"times,omitempty"`    // requests that it answers; 0 means 1, Forever all
	DelayMS int               `json:"delay_ms,omitempty"` // before the first byte
	Status  int               `json:"status,omitempty"`   // 0 means 200
	Header  map[string]string `json:"header,omitempty"`   // added to, or in place of, the usual ones

	// The body: whole, or in chunks that are flushed one by one; with neither,
	// the default answer of the route, shaped by the fields further down.
	Body   string  `json:"body,omitempty"`
	Chunks []Chunk `json:"chunks,omitempty"`
	// Raw writes the chunks to the socket as they are: they hold the status
	// line, the headers and the framing too.
	Raw  bool `json:"raw,omitempty"`
	Gzip bool `json:"gzip,omitempty"` // packs the body, flushed at each chunk
	End  End  `json:"end,omitempty"`  // what happens after the last byte

	Content      string     `json:"content,omitempty"`  // text of the answer, "hello-world" if empty and without Tools, or of the error
	Thinking     string     `json:"thinking,omitempty"` // what the model thought before it, where the dialect shows that
	Tools        []ToolCall `json:"tools,omitempty"`    // calls after the text
	Usage        *Usage     `json:"usage,omitempty"`    // nil: 10 prompt + 20 completion tokens
	NoUsage      bool       `json:"no_usage,omitempty"`
	ChunkDelayMS int        `json:"chunk_delay_ms,omitempty"` // before each event of a default stream
}

// Chunk is a part of a body that is flushed on its own.
type Chunk struct {
	Text    string `json:"text,omitempty"`
	Bytes   []byte `json:"bytes,omitempty"`    // base64 in JSON; for what is no UTF-8
	DelayMS int    `json:"delay_ms,omitempty"` // before it
}

func (c Chunk) data() []byte {
	if c.Bytes != nil {
		return c.Bytes
	}
	return []byte(c.Text)
}

// Usage is what an answer reports. Cached is a part of Prompt.
type Usage struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Cached     int64 `json:"cached,omitempty"`
}

// End is what happens on the connection after the last scripted byte.
type End string

// The ways to end an answer.
const (
	EndComplete    End = ""              // as HTTP wants it
	EndReset       End = "reset"         // TCP reset
	EndHalfClose   End = "half_close"    // no more from here, but the connection is kept until the peer closes
	EndNoLastChunk End = "no_last_chunk" // closed without the chunk that ends a chunked body
	EndSilence     End = "silence"       // nothing more, and open until the peer closes
	EndIdleClose   End = "idle_close"    // complete and kept alive, then closed although the peer may use it again
)

// Split cuts s into chunks of n bytes, wherever that falls.
func Split(s string, n int) []Chunk {
	var chunks []Chunk
	for part := range slices.Chunk([]byte(s), max(n, 1)) {
		chunks = append(chunks, cutting(part))
	}
	return chunks
}

// SplitAt cuts s at the given byte offsets, which must be in order and within s.
func SplitAt(s string, offsets ...int) []Chunk {
	var chunks []Chunk
	from := 0
	for _, at := range append(slices.Clone(offsets), len(s)) {
		chunks = append(chunks, cutting([]byte(s[from:at])))
		from = at
	}
	return chunks
}

func cutting(part []byte) Chunk {
	if utf8.Valid(part) {
		return Chunk{Text: string(part)}
	}
	return Chunk{Bytes: part}
}

// Validate returns what is wrong with the step, for scripts that come over HTTP.
func (s Step) Validate() error {
	var errs []error
	if s.Times < Forever {
		errs = append(errs, fmt.Errorf("times is %d; use a number of requests, or -1 for all", s.Times))
	}
	if s.Status != 0 && (s.Status < 200 || s.Status > 599) {
		errs = append(errs, fmt.Errorf("status is %d; use 200 to 599", s.Status))
	}
	if s.DelayMS < 0 || s.ChunkDelayMS < 0 {
		errs = append(errs, errors.New("a delay is negative"))
	}
	if s.Body != "" && len(s.Chunks) > 0 {
		errs = append(errs, errors.New("body and chunks exclude each other"))
	}
	if s.Raw && (len(s.Chunks) == 0 || s.Gzip) {
		errs = append(errs, errors.New("raw needs chunks, and they are not packed"))
	}
	switch s.End {
	case EndComplete, EndReset, EndHalfClose, EndNoLastChunk, EndSilence, EndIdleClose:
	default:
		errs = append(errs, fmt.Errorf("end %q is unknown", s.End))
	}
	return errors.Join(errs...)
}

// scripts holds the queues. Safe for any number of goroutines.
type scripts struct {
	mu     sync.Mutex
	queues map[Match][]Step
}

func (s *scripts) add(m Match, steps []Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = make(map[Match][]Step)
	}
	s.queues[m] = append(s.queues[m], steps...)
}

func (s *scripts) remove(m Match) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, m)
}

func (s *scripts) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues = nil
}

// next takes the step for a request, the most specific script first.
func (s *scripts) next(model, path string) (Step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues) == 0 {
		return Step{}, false
	}
	for _, m := range []Match{{model, path}, {Model: model}, {Path: path}, {}} {
		queue := s.queues[m]
		if len(queue) == 0 {
			continue
		}
		step := queue[0]
		switch {
		case step.Times == Forever:
		case step.Times > 1:
			queue[0].Times--
		default:
			s.queues[m] = queue[1:]
		}
		return step, true
	}
	return Step{}, false
}
