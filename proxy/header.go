package proxy

import (
	"net/http"
	"strings"
)

// requestHeader returns what goes up: the protocol headers that providers
// document, and nothing else that the client sent. The credential is the
// caller's to add.
func requestHeader(client http.Header, stream bool) http.Header {
	h := make(http.Header, 8) // the usual ones
	named := connectionNames(client)
	for name, values := range client {
		if forwarded(name) && !named[name] {
			h[name] = values
		}
	}
	h["Content-Type"] = jsonType
	// Usage is read in passing, so nothing may come packed.
	h["Accept-Encoding"] = identity
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = userAgent
	}
	if _, ok := h["Accept"]; !ok {
		h["Accept"] = jsonType
		if stream {
			h["Accept"] = eventStream
		}
	}
	return h
}

var (
	identity    = []string{"identity"}
	userAgent   = []string{"sluice"}
	eventStream = []string{"text/event-stream"}
)

// forwarded reports whether a request header goes up.
func forwarded(name string) bool {
	switch name {
	case "Accept", "User-Agent", "Openai-Organization", "Openai-Project", "Openai-Beta", "X-Client-Request-Id":
		return true
	}
	return strings.HasPrefix(name, "Anthropic-") || strings.HasPrefix(name, "X-Stainless-")
}

// connectionNames returns the headers that Connection names; they end at the
// next hop. nil for the usual none.
func connectionNames(h http.Header) map[string]bool {
	var names map[string]bool
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if name == "" || name == "Keep-Alive" || name == "Close" {
				continue
			}
			if names == nil {
				names = make(map[string]bool)
			}
			names[name] = true
		}
	}
	return names
}

// copyResponseHeader puts an upstream's headers on an answer: without what ends
// at this hop, without what is about the upstream's host, without credentials.
// Names that are the gateway's own are shown as llm_provider-<name>. secret, if
// not "", appears in no value.
func copyResponseHeader(to, from http.Header, secret string) {
	named := connectionNames(from)
	for name, values := range from {
		if withheld(name) || named[name] || holds(values, secret) {
			continue
		}
		if gatewayName(name) {
			name = "llm_provider-" + strings.ToLower(name)
		}
		if own := to[name]; name == "Vary" && len(own) > 0 {
			values = append(own[:len(own):len(own)], values...)
		}
		to[name] = values
	}
}

func holds(values []string, secret string) bool {
	if secret == "" {
		return false
	}
	for _, v := range values {
		if strings.Contains(v, secret) {
			return true
		}
	}
	return false
}

// withheld reports whether a response header stays behind. Content-Length is
// set again where it is still true.
func withheld(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Te", "Trailer", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authorization", "Authorization", "Www-Authenticate", "Api-Key", "X-Api-Key", "X-Goog-Api-Key",
		"Set-Cookie", "Set-Cookie2", "Location", "Content-Location", "Refresh",
		"Content-Length", "Date", "Server", "Via", "Alt-Svc", "Strict-Transport-Security", "Report-To", "Nel":
		return true
	}
	return strings.HasPrefix(name, "Access-Control-")
}

// gatewayName reports whether a header is one that the gateway sets itself.
func gatewayName(name string) bool {
	switch name {
	case "Rate_limit_type", "Reset_at":
		return true
	}
	return strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "X-Litellm-") || strings.HasPrefix(name, "X-Sluice-")
}
