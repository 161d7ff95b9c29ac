package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// What the mock answers beside chats, completions and embeddings. It keeps no
// response: one of its own shape of id is there, any other is not.

const (
	mockResponseID    = "resp_mock0"
	mockResponseUsage = `{"input_tokens":10,"input_tokens_details":{"cached_tokens":0},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":30}`
	// mockImage is a picture of one pixel.
	mockImage = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)

func mockOther(c *call) *http.Response {
	const kind = "application/json"
	say := func(body string) *http.Response { return mockWhole(http.StatusOK, kind, []byte(body)) }
	switch c.endpoint {
	case responses:
		if c.stream {
			return mockAnswer("text/event-stream", &pieces{parts: mockResponseEvents(c)})
		}
		return say(mockResponse(c, "completed", true))
	case compactResponses:
		return say(`{"id":"` + mockResponseID + `","object":"response.compaction",` + mockCreatedAt + `,"output":[],"usage":` + mockResponseUsage + `}`)
	case countInput:
		return say(`{"object":"response.input_tokens","input_tokens":10}`)
	case oneResponse, responseItems, cancelResponse:
		return mockKept(c)
	case moderations:
		return say(`{"id":"modr-mock0","model":` + string(appendText(nil, c.model)) + `,"results":[{"flagged":false,"categories":{},"category_scores":{}}]}`)
	case rerank:
		return say(`{"id":"` + mockID + `","results":[{"index":0,"relevance_score":1.0}],"meta":{"tokens":{"input_tokens":10}}}`)
	case transcriptions, translations:
		return say(`{"text":` + string(appendText(nil, c.target.MockResponse)) + `,"usage":{"type":"tokens","input_tokens":10,"output_tokens":20,"total_tokens":30}}`)
	case speech:
		return mockWhole(http.StatusOK, "audio/mpeg", []byte{0xff, 0xfb, 0x10, 0xc4, 0, 0, 0, 0})
	}
	return say(`{` + mockCreated + `,"data":[{"b64_json":"` + mockImage + `"}],"usage":{"input_tokens":10,"output_tokens":20,"total_tokens":30}}`)
}

const mockCreatedAt = `"created_at":1677610602`

// mockKept answers about a response that was made before.
func mockKept(c *call) *http.Response {
	id, _, _ := strings.Cut(strings.TrimPrefix(c.resource, "/"), "/")
	if id != mockResponseID {
		body := `{"error":{"message":"Response with id '` + id + `' not found.","type":"invalid_request_error","param":null,"code":null}}`
		return mockWhole(http.StatusNotFound, "application/json", []byte(body))
	}
	var body string
	switch {
	case c.method == http.MethodDelete:
		body = `{"id":"` + id + `","object":"response","deleted":true}`
	case c.endpoint == responseItems:
		body = `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`
	case c.endpoint == cancelResponse:
		body = mockResponse(c, "cancelled", true)
	default:
		body = mockResponse(c, "completed", true)
	}
	return mockWhole(http.StatusOK, "application/json", []byte(body))
}

// mockResponse is a response; whole tells whether its output is there.
func mockResponse(c *call, status string, whole bool) string {
	output, usage := "[]", "null"
	if whole {
		output, usage = "["+mockItem(c, "completed", true)+"]", mockResponseUsage
	}
	return `{"id":"` + mockResponseID + `","object":"response",` + mockCreatedAt + `,"status":"` + status + `","error":null,"incomplete_details":null,"instructions":null,"metadata":{},"model":` +
		string(appendText(nil, c.model)) + `,"output":` + output + `,"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"usage":` + usage + `}`
}

func mockItem(c *call, status string, whole bool) string {
	content := "[]"
	if whole {
		content = "[" + mockPart(c.target.MockResponse) + "]"
	}
	return `{"id":"msg_mock0","type":"message","status":"` + status + `","role":"assistant","content":` + content + `}`
}

func mockPart(s string) string {
	return `{"type":"output_text","text":` + string(appendText(nil, s)) + `,"annotations":[]}`
}

// mockResponseEvents is a response in the order of events that a real one has.
func mockResponseEvents(c *call) [][]byte {
	var events [][]byte
	event := func(kind, members string) {
		events = append(events, []byte("event: "+kind+"\ndata: {\"type\":\""+kind+"\",\"sequence_number\":"+strconv.Itoa(len(events))+","+members+"}\n\n"))
	}
	const item = `"item_id":"msg_mock0","output_index":0,"content_index":0,`
	whole := c.target.MockResponse
	event("response.created", `"response":`+mockResponse(c, "in_progress", false))
	event("response.in_progress", `"response":`+mockResponse(c, "in_progress", false))
	event("response.output_item.added", `"output_index":0,"item":`+mockItem(c, "in_progress", false))
	event("response.content_part.added", item+`"part":`+mockPart(""))
	for _, word := range strings.SplitAfter(whole, " ") {
		event("response.output_text.delta", item+`"delta":`+string(appendText(nil, word))+`,"logprobs":[]`)
	}
	event("response.output_text.done", item+`"text":`+string(appendText(nil, whole))+`,"logprobs":[]`)
	event("response.content_part.done", item+`"part":`+mockPart(whole))
	event("response.output_item.done", `"output_index":0,"item":`+mockItem(c, "completed", true))
	event("response.completed", `"response":`+mockResponse(c, "completed", true))
	return events
}
