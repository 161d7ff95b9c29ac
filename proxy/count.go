package proxy

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"sluice/proxy/translate"
)

// Requests to count tokens go to an Anthropic deployment; for others, and where
// an upstream has no such endpoint, the gateway answers with an estimate. They
// generate nothing, providers count them apart from requests, and coding agents
// send them by the dozen: no limit counts them. Who may use the model is checked
// as for any request, and whoever has a limit of nothing may not ask. What an
// upstream says to them pauses no deployment.

// estimatedCount is the answer to a request to count tokens that no upstream
// gives.
func estimatedCount(c *call) *http.Response {
	n, err := translate.MessagesInputEstimate(c.payload.bytes())
	if err != nil {
		bad := badRequest("", err.Error())
		return jsonResponse(bad.Status, bad.encodeAs(anthropicProtocol, ""))
	}
	return jsonResponse(http.StatusOK, append(strconv.AppendInt([]byte(`{"input_tokens":`), n, 10), '}'))
}

// jsonResponse is an answer that is made here, in the place of an upstream's.
func jsonResponse(status int, body []byte) *http.Response {
	res := mockAnswer("application/json", io.NopCloser(bytes.NewReader(body)))
	res.StatusCode, res.ContentLength = status, int64(len(body))
	return res
}
