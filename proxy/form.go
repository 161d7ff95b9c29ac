package proxy

import (
	"bytes"
	"fmt"
	"mime"
	"net/url"
	"strings"
)

// form is what the gateway needs to know of a multipart/form-data body. Readers
// of forms differ on almost everything that is unusual, so whatever some of
// them would take in another way is refused: what is authorised here is what
// the upstream reads.
type form struct {
	boundary string
	model    string
	modelAt  span // content of the part "model"; none if absent
	stream   bool
	n        int64 // answers asked for, ≥ 1
	text     int64 // bytes of the fields that are no files
	files    int64
}

const (
	maxParts      = 1000
	maxPartHeader = 8 << 10 // bytes
)

// formFields are the fields of a form that must be there once, in exactly this
// spelling.
var formFields = [...]string{"model", "stream", "n", "user"}

// isForm reports whether a request says that its body is a multipart form.
func isForm(contentType []string) bool {
	for _, v := range contentType {
		t, _, _ := strings.Cut(v, ";")
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(t)), "multipart/") {
			return true
		}
	}
	return false
}

// formBoundary returns the boundary that a Content-Type names. The error is an
// *Error.
func formBoundary(contentType []string) (string, error) {
	if len(contentType) != 1 {
		return "", badForm("it has more than one Content-Type")
	}
	kind, params, err := mime.ParseMediaType(contentType[0])
	switch {
	case err != nil || strings.ContainsAny(contentType[0], `*\`):
		return "", badForm("its Content-Type cannot be read")
	case kind != "multipart/form-data":
		return "", badForm("its Content-Type is not multipart/form-data")
	}
	// Some read names and values by it: other names, of the same bytes.
	if c, ok := params["charset"]; ok && !strings.EqualFold(c, "utf-8") {
		return "", badForm("its charset is not UTF-8")
	}
	b := params["boundary"]
	if b == "" {
		return "", badForm("its Content-Type names no boundary")
	}
	if len(b) > 70 {
		return "", badForm("its boundary is longer than 70 characters")
	}
	for _, c := range []byte(b) {
		if !isAlnum(c) && !strings.ContainsRune("'()+_,-./:=?", rune(c)) {
			return "", badForm("its boundary holds a character that no boundary can have")
		}
	}
	return b, nil
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func badForm(why string) *Error {
	return badRequest("", "The form in the body of the request is not accepted: "+why+".")
}

// scanForm reads a form in one pass. The error is an *Error, a 400.
func scanForm(data []byte, boundary string) (form, error) {
	f := form{boundary: boundary, n: 1}
	delim := []byte("--" + boundary)
	var seen [len(formFields)]bool
	if !bytes.HasPrefix(data, delim) {
		return f, badForm("it does not begin with its boundary")
	}
	at := len(delim)
	for parts := 0; ; parts++ {
		rest := data[at:]
		if end, ok := bytes.CutPrefix(rest, []byte("--")); ok {
			if len(end) > 0 && string(end) != "\r\n" {
				return f, badForm("something follows its end")
			}
			return f, nil
		}
		if !bytes.HasPrefix(rest, []byte("\r\n")) {
			return f, badForm("its boundary occurs inside of a line")
		}
		if parts == maxParts {
			return f, badForm(fmt.Sprintf("it has more than %d parts", maxParts))
		}
		at += 2
		head := bytes.Index(data[at:min(len(data), at+maxPartHeader)], []byte("\r\n\r\n"))
		if head < 0 {
			return f, badForm("a part has no header, or one that is too long")
		}
		p, err := readPart(data[at:at+head], delim)
		if err != nil {
			return f, err
		}
		at += head + 4
		next := bytes.Index(data[at:], delim)
		if next < 0 {
			return f, badForm("it is cut off")
		}
		if next < 2 || string(data[at+next-2:at+next]) != "\r\n" {
			return f, badForm("its boundary occurs inside of a line")
		}
		if err := f.take(p, data, span{at, at + next - 2}, &seen); err != nil {
			return f, err
		}
		at += next + len(delim)
	}
}

// take reads one part, whose content is at the given place.
func (f *form) take(p formPart, data []byte, at span, seen *[len(formFields)]bool) error {
	content := data[at.at:at.end]
	if p.file {
		f.files++
	} else {
		f.text += int64(len(content))
	}
	i, err := formField(p.name)
	if err != nil || i < 0 {
		return err
	}
	name := formFields[i]
	switch {
	case seen[i]:
		return badRequest(name, fmt.Sprintf("%q is there more than once.", name))
	case p.file:
		return badRequest(name, fmt.Sprintf("%q must be a field of the form, not a file.", name))
	case !p.plain:
		return badRequest(name, fmt.Sprintf("%q must be plain text in UTF-8.", name))
	}
	seen[i] = true
	switch name {
	case "model":
		f.model, f.modelAt = string(content), at
	case "stream":
		f.stream = strings.EqualFold(string(content), "true") || string(content) == "1"
	case "n":
		n, ok := count(content)
		if !ok && len(content) > 0 {
			return badRequest(name, `"n" must be a whole number, 0 or more.`)
		}
		f.n = max(n, 1)
	}
	return nil
}

// formField returns the index of a field that must be spelled exactly so, -1
// for another one, and an error for a variant of one.
func formField(name string) (int, error) {
	for i, f := range formFields {
		if name == f {
			return i, nil
		}
	}
	base, _, _ := strings.Cut(name, "[")
	if s, err := url.QueryUnescape(base); err == nil {
		base = s
	}
	base = strings.TrimSpace(base)
	if strings.EqualFold(base, "_charset_") {
		return -1, badForm("a field _charset_ makes other names of the same bytes")
	}
	for _, f := range formFields {
		if strings.EqualFold(base, f) {
			return -1, badRequest(f, fmt.Sprintf("A field is a variant of %q; spell it exactly so.", f))
		}
	}
	return -1, nil
}

// rewrite appends data to dst with another model. Every other byte stays.
func (f *form) rewrite(dst, data []byte, model string) []byte {
	if f.modelAt.none() {
		dst = append(dst, "--"+f.boundary+"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"+model+"\r\n"...)
		return append(dst, data...)
	}
	dst = append(append(dst, data[:f.modelAt.at]...), model...)
	return append(dst, data[f.modelAt.end:]...)
}

// tokens estimates the input of a form of size bytes: what a file holds says
// little about its tokens.
func (f *form) tokens(size int64) int64 {
	return max(estimate(f.text)+min(estimate(size-f.text), f.files*mediaTokens), 1)
}
