package proxy

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

// CleanPath returns the one path by which a request is judged, routed and
// forwarded: no doubled slashes, no trailing slash, nothing encoded left in
// it. A path that could be read in two ways is an *Error (400); nothing is
// ever redirected. It does not allocate for a path that is clean already.
func CleanPath(r *http.Request) (string, error) {
	p := r.URL.Path
	if p == "" || p[0] != '/' {
		return "", badPath("it does not start with a slash")
	}
	if raw := r.URL.RawPath; raw != "" && hidesSeparator(raw) {
		return "", badPath("it holds an encoded slash or dot; write the slash of a model name as it is")
	}
	tidy := true // no doubled and no trailing slash
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c < ' ' || c == 0x7f:
			return "", badPath("it holds a control character")
		case c == '\\' || c == ';' || c == '%':
			return "", badPath("it holds a backslash, a semicolon or a percent sign")
		case c == '/':
			end := strings.IndexByte(p[i+1:], '/')
			if end < 0 {
				end = len(p) - i - 1
			}
			seg := p[i+1 : i+1+end]
			if seg != "" && strings.Trim(seg, ".") == "" {
				return "", badPath("it holds a segment of dots")
			}
			if seg == "" && len(p) > 1 {
				tidy = false
			}
		}
	}
	if !utf8.ValidString(p) {
		return "", badPath("it is not UTF-8")
	}
	if !tidy {
		p = squeeze(p)
	}
	return p, nil
}

func badPath(why string) *Error {
	return badRequest("", "The path of the request is not accepted: "+why+".")
}

// hidesSeparator reports whether an encoded path holds a slash or a dot in
// disguise. (A backslash, a NUL or a percent sign shows in the decoded one.)
func hidesSeparator(raw string) bool {
	for i := 0; i+2 < len(raw); i++ {
		if raw[i] != '%' || raw[i+1] != '2' {
			continue
		}
		switch raw[i+2] {
		case 'e', 'E', 'f', 'F':
			return true
		}
	}
	return false
}

// squeeze removes empty segments, at the end too.
func squeeze(p string) string {
	var b strings.Builder
	b.Grow(len(p))
	for seg := range strings.SplitSeq(p, "/") {
		if seg != "" {
			b.WriteByte('/')
			b.WriteString(seg)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// notFound is the 404 of an unknown path. The path itself is not repeated: it
// may hold what the caller took for a place to put a key.
func notFound(path string) *Error {
	hint := "The data plane answers /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/messages, /v1/responses, /v1/moderations, /v1/images/generations, /v1/audio/transcriptions, /v1/audio/speech, /v1/rerank and /v1/models, among others."
	switch lower := strings.ToLower(path); {
	case strings.HasPrefix(path, "/v1/v1/"):
		hint = "/v1 is there twice: the client appends it to a base URL that already ends in /v1."
	case lower != path && known(lower):
		hint = "Paths are lower case: " + lower + "."
	}
	return &Error{Status: http.StatusNotFound, Type: typeInvalid, Message: "Not Found. " + hint}
}

func known(path string) bool {
	e, _ := match(path)
	return e != noEndpoint && e != showModel && e != oneResponse && e != responseItems && e != cancelResponse && !strings.HasPrefix(path, deployments)
}

func methodNotAllowed(e endpoint) *Error {
	return &Error{
		Status: http.StatusMethodNotAllowed, Type: typeInvalid, Allow: e.allow(),
		Message: "Method Not Allowed. " + e.path() + " takes " + e.allow() + ".",
	}
}
