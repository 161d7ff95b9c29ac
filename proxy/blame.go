package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
)

// objection is what an upstream's refusal says in the places that are its own.
// Whatever else is in it may repeat what the client sent.
type objection struct {
	codes    [2]string // error.code, error.type
	messages [2]string // error.message, message
}

// objectionOf reads a refusal; what is no JSON says nothing that we know.
func objectionOf(body []byte) (o objection) {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"` // vLLM has it at the top
	}
	if json.Unmarshal(body, &e) != nil {
		return o
	}
	var in struct {
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if len(e.Error) > 0 {
		_ = json.Unmarshal(e.Error, &in) // a text says nothing that we know
	}
	o.codes[0], _ = in.Code.(string)
	o.codes[1] = in.Type
	o.messages = [2]string{in.Message, e.Message}
	return o
}

// begins reports whether a message begins with one of the texts; it returns
// that message.
func (o *objection) begins(texts ...string) (message string, ok bool) {
	for _, m := range o.messages {
		for _, t := range texts {
			if strings.HasPrefix(m, t) {
				return m, true
			}
		}
	}
	return "", false
}

// lacksModel reports whether a 404 is about the model that the configuration
// names: there are others, about endpoints that a model or an upstream does not
// have, and about what a client's ids name.
func lacksModel(body []byte, model string) bool {
	if model == "" || model == "*" {
		return false // the client's name
	}
	o := objectionOf(body)
	if o.codes[0] == "DeploymentNotFound" {
		return true // Azure does not repeat the name
	}
	m, ok := o.begins("The model", "model: ", "model '", `model "`)
	return ok && strings.Contains(m, model)
}

// foreignAccount reports whether a request names an organisation or a project
// that the deployment's credential may not be of: a 401 may be about that.
func foreignAccount(client http.Header) bool {
	return len(client["Openai-Organization"]) > 0 || len(client["Openai-Project"]) > 0
}

// tooLargeForAMinute reports whether a 429 is about the request alone: it asks
// for more tokens than the provider's limit is, so no wait helps, and the limit
// may be far from reached.
func tooLargeForAMinute(status int, body []byte) bool {
	if status != http.StatusTooManyRequests {
		return false
	}
	o := objectionOf(body)
	_, ok := o.begins("Request too large for ")
	return ok
}

// requestAtFault reports whether an error event of a stream is about the request.
func requestAtFault(data []byte) bool {
	type inner struct {
		Code any    `json:"code"`
		Type string `json:"type"`
	}
	var e struct {
		Code     any   `json:"code"`
		Error    inner `json:"error"`
		Response struct {
			Error inner `json:"error"`
		} `json:"response"`
	}
	_ = json.Unmarshal(data, &e) // what does not fit says nothing that we know
	for _, v := range [...]any{e.Code, e.Error.Code, e.Error.Type, e.Response.Error.Code, e.Response.Error.Type} {
		code, _ := v.(string)
		if strings.HasPrefix(code, "invalid_") || strings.Contains(code, "image") || strings.Contains(code, "content_") || code == "context_length_exceeded" {
			return true
		}
	}
	return false
}
