package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// mock is the provider that answers in process: mock_response after
// mock_latency, with the usage of LiteLLM's mock.
type mock struct{}

var _ provider = mock{}

const (
	mockID    = "mock-0"
	mockUsage = `{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}`
	// mockEmbeddingUsage: nothing is generated.
	mockEmbeddingUsage = `{"prompt_tokens":10,"total_tokens":10}`
	mockCreated        = `"created":1677610602`
)

// serves: the mock speaks every protocol.
func (mock) serves(e endpoint) endpoint { return e }

func (mock) prepare(*target, func(string) (string, error)) error { return nil }

func (mock) send(ctx context.Context, c *call) (*http.Response, error) {
	if d := c.target.MockLatency; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if c.stream && c.endpoint.streams() {
		return mockAnswer("text/event-stream", &pieces{parts: mockEvents(c)}), nil
	}
	if c.endpoint > showModel {
		return mockOther(c), nil
	}
	return mockWhole(http.StatusOK, "application/json", mockBody(c)), nil
}

// mockWhole is an answer that is all there.
func mockWhole(status int, contentType string, body []byte) *http.Response {
	res := mockAnswer(contentType, io.NopCloser(bytes.NewReader(body)))
	res.StatusCode, res.ContentLength = status, int64(len(body))
	return res
}

func mockAnswer(contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1,
	}
}

// mockBody is a whole answer.
func mockBody(c *call) []byte {
	b := make([]byte, 0, 320+len(c.target.MockResponse))
	switch c.endpoint {
	case messages:
		return mockMessage(b, c)
	case countTokens:
		return append(b, `{"input_tokens":10}`...)
	case embeddings:
		b = append(b, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.0,0.5,1.0]}],"model":`...)
		b = appendText(b, c.model)
		return append(append(append(b, `,"usage":`...), mockEmbeddingUsage...), '}')
	case completions:
		b = mockHead(b, "text_completion", c.model)
		b = append(b, `,"choices":[{"index":0,"text":`...)
		b = appendText(b, c.target.MockResponse)
		b = append(b, `,"logprobs":null,"finish_reason":"stop"}]`...)
	default:
		b = mockHead(b, "chat.completion", c.model)
		b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
		b = appendText(b, c.target.MockResponse)
		b = append(b, `},"logprobs":null,"finish_reason":"stop"}]`...)
	}
	return append(append(append(b, `,"usage":`...), mockUsage...), '}')
}

func mockHead(b []byte, object, model string) []byte {
	b = append(b, `{"id":"`+mockID+`","object":`...)
	b = appendText(b, object)
	b = append(b, ","+mockCreated+`,"model":`...)
	return appendText(b, model)
}

// mockEvents is a stream in several events: the words of the answer, the end,
// the usage if it was asked for, and [DONE].
func mockEvents(c *call) [][]byte {
	if c.endpoint == messages {
		return mockMessageEvents(c)
	}
	usage := ""
	if c.usage {
		usage = `,"usage":null`
	}
	var events [][]byte
	event := func(choices, usage string) {
		b := append([]byte(nil), "data: "...)
		if c.endpoint == completions {
			b = mockHead(b, "text_completion", c.model)
		} else {
			b = mockHead(b, "chat.completion.chunk", c.model)
		}
		events = append(events, append(b, `,"choices":[`+choices+`]`+usage+"}\n\n"...))
	}
	for i, word := range strings.SplitAfter(c.target.MockResponse, " ") {
		text := string(appendText(nil, word))
		switch {
		case c.endpoint == completions:
			event(`{"index":0,"text":`+text+`,"logprobs":null,"finish_reason":null}`, usage)
		case i == 0:
			event(`{"index":0,"delta":{"role":"assistant","content":`+text+`},"finish_reason":null}`, usage)
		default:
			event(`{"index":0,"delta":{"content":`+text+`},"finish_reason":null}`, usage)
		}
	}
	if c.endpoint == completions {
		event(`{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}`, usage)
	} else {
		event(`{"index":0,"delta":{},"finish_reason":"stop"}`, usage)
	}
	if c.usage {
		event("", `,"usage":`+mockUsage)
	}
	return append(events, []byte("data: [DONE]\n\n"))
}

// pieces is a body that arrives one part per read.
type pieces struct{ parts [][]byte }

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.parts[0])
	if p.parts[0] = p.parts[0][n:]; len(p.parts[0]) == 0 {
		p.parts = p.parts[1:]
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// milliseconds writes d as the duration headers have it.
func milliseconds(d time.Duration) string {
	us := d.Round(time.Microsecond).Microseconds()
	b := append(strconv.AppendInt(make([]byte, 0, 24), us/1000, 10), '.', byte('0'+us/100%10), byte('0'+us/10%10), byte('0'+us%10))
	return string(b)
}
