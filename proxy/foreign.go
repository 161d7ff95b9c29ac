package proxy

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"sluice/proxy/translate"
)

// A call is foreign if its deployment speaks another protocol than the client:
// the request goes up translated, answers, errors and streams come down so.
// What cannot be translated is a 400 that names the field.

// translateRequest returns the body of a foreign call. The error is an *Error.
func translateRequest(c *call, body []byte) (*buffer, error) {
	var out []byte
	var err error
	if c.endpoint == chatCompletions {
		ask := c.stream && !c.target.NoStreamUsage
		out, err = translate.MessagesRequest(withoutExtras(body), c.model, ask)
	} else {
		out, err = translate.ChatRequest(body, c.model, translate.Options{})
	}
	var bad *translate.Error
	switch {
	case errors.As(err, &bad):
		return nil, badRequest(bad.Param, bad.Message)
	case err != nil:
		return nil, badRequest("", "The request cannot be translated for the model's provider.")
	}
	return &buffer{b: out, own: true}, nil
}

// extras are what clients send for a gateway: no provider knows them.
var extras = map[string]bool{
	"fallbacks": true, "context_window_fallbacks": true, "content_policy_fallbacks": true,
	"num_retries": true, "timeout": true, "cache": true,
}

// withoutExtras returns a Messages request without what is for the gateway; the
// body itself if there is nothing of the kind.
func withoutExtras(body []byte) []byte {
	found := false
	for m := newMembers(body); m.next(); {
		found = found || extras[string(m.key)]
	}
	if !found {
		return body
	}
	out := append(make([]byte, 0, len(body)), '{')
	for m := newMembers(body); m.next(); {
		if extras[string(m.key)] {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, body[m.keyAt:m.end]...)
	}
	return append(out, '}')
}

// onlyGeneral takes headers out of a translated request that are about another
// protocol than the one it goes up in: they would speak of fields that are not
// there any more.
func onlyGeneral(h http.Header, p protocol) {
	for name := range h {
		if p == openAIProtocol && strings.HasPrefix(name, "Anthropic-") || p == anthropicProtocol && strings.HasPrefix(name, "Openai-") {
			delete(h, name)
		}
	}
}

// foreignHeaders makes the headers of an upstream's answer fit a translated
// body, and shows the request's id where clients of protocol p look for it.
func foreignHeaders(h http.Header, p protocol) {
	withoutDigests(h)
	h["Content-Type"] = jsonType // a stream sets its own
	from, to := "Request-Id", "X-Request-Id"
	if p == anthropicProtocol {
		from, to = to, from
	}
	if id, ok := h[from]; ok && len(h[to]) == 0 {
		h[to] = id
	}
}

// withoutDigests takes out what tells one body from another, byte for byte.
func withoutDigests(h http.Header) {
	for _, name := range [...]string{"Etag", "Digest", "Content-Digest", "Repr-Digest", "Content-Md5", "Accept-Ranges"} {
		delete(h, name)
	}
}

// foreignError translates an upstream's error.
func (x *exchange) foreignError(status int, body []byte) (int, []byte) {
	if x.endpoint.protocol() == anthropicProtocol {
		return translate.MessagesError(status, body)
	}
	return translate.ChatError(status, body)
}

// relayForeign translates a whole answer. It is read to its end first, up to as
// much as one event of a stream may have.
func (x *exchange) relayForeign(w *watch, c *call, body io.Reader, res *http.Response) error {
	buf := x.p.buffers.get()
	defer x.p.buffers.put(buf)
	if err := buf.fill(body, int64(x.p.maxEvent), res.ContentLength); errors.Is(err, errTooLarge) {
		return x.nonsense("The upstream's answer is larger than " + byteCount(int64(x.p.maxEvent)) + ".")
	} else if err != nil {
		return x.upstreamFailed(w, err)
	}
	if len(buf.b) == 0 {
		return x.nonsense("The upstream's answer is empty.")
	}
	x.ready = x.p.now()
	find := x.usageFinder()
	_, _ = find.Write(buf.b) // it takes everything
	x.usage = find.usage
	var out []byte
	var err error
	if x.endpoint.protocol() == anthropicProtocol {
		out, err = translate.MessagesAnswer(buf.b, x.model.Asked)
	} else {
		out, err = translate.ChatAnswer(buf.b, x.model.Asked, x.p.now().Unix())
	}
	if err != nil {
		f := failure{"protocol", badGateway("The upstream's answer is not what its protocol says.", err)}
		x.failed(f)
		return f.err
	}
	x.output, x.billable = estimate(int64(len(buf.b))), true
	x.responseHeaders(res)
	x.set(x.w.Header(), "Content-Length", strconv.Itoa(len(out)))
	x.status = res.StatusCode
	x.w.WriteHeader(res.StatusCode)
	x.settle()
	if err := x.send(out); err != nil {
		x.left(err)
	}
	return nil
}

// translator turns the events of an upstream's stream into the client's.
type translator interface {
	// Event appends what one event becomes: whole events, or nothing.
	Event(dst []byte, name string, data []byte) ([]byte, error)
	// End appends what is due at the end; ok is false if that came too early.
	End(dst []byte) (out []byte, ok bool)
}

// messagesStream is a translate.MessagesStream; OpenAI's events have no names.
type messagesStream struct{ *translate.MessagesStream }

func (s messagesStream) Event(dst []byte, _ string, data []byte) ([]byte, error) {
	return s.MessagesStream.Event(dst, data)
}

// translator returns the one of a foreign call's stream.
func (x *exchange) translator(c *call) translator {
	if x.endpoint.protocol() == anthropicProtocol {
		return messagesStream{translate.NewMessagesStream(x.model.Asked, x.messageID())}
	}
	return translate.NewChatStream(x.model.Asked, x.p.now().Unix(), c.usage)
}

// messageID returns a new id for a message of Anthropic's.
func (x *exchange) messageID() string {
	var b [12]byte
	r := x.p.rand()
	for i := range b {
		if i == 8 {
			r = x.p.rand()
		}
		b[i] = byte(r)
		r >>= 8
	}
	return "msg_" + hex.EncodeToString(b[:])
}
