package translate

import "bytes"

// partRules says which parts a message may have.
type partRules int

const (
	onlyWords partRules = iota // of a system message
	ownWords                   // of the assistant: text and refusals
	anyInput                   // of a user or a tool
)

// appendContent appends the blocks of content, a string or a list of parts, to
// dst. Text that is empty or white space alone is left out, as the Messages API
// refuses it. cache marks the last block.
func appendContent(dst, content, cache []byte, rules partRules) ([]byte, error) {
	switch {
	case content == nil:
		return dst, nil
	case isString(content):
		dst, err := appendText(dst, content, cache)
		return dst, within(err, "content")
	case !isArray(content):
		return dst, fail("content", "This must be a string or a list of parts.")
	}
	last := -1
	for w := walk(content); w.next(); {
		last++
	}
	i := 0
	for w := walk(content); w.next(); i++ {
		var mark []byte
		if i == last {
			mark = cache
		}
		var err error
		if dst, err = appendPart(dst, w.val, mark, rules); err != nil {
			return dst, item(err, "content", i)
		}
	}
	return dst, nil
}

func appendText(dst, text, cache []byte) ([]byte, error) {
	if isBlank(text) {
		return dst, nil
	}
	dst = append(comma(dst), `{"type":"text","text":`...)
	return appendBlockEnd(append(dst, text...), cache)
}

// appendBlockEnd ends a block, with its cache_control if it has one.
func appendBlockEnd(dst, cache []byte) ([]byte, error) {
	if cache != nil {
		if !isObject(cache) {
			return dst, fail("cache_control", "This must be an object.")
		}
		dst = append(append(dst, `,"cache_control":`...), cache...)
	}
	return append(dst, '}'), nil
}

func appendPart(dst, raw, cache []byte, rules partRules) ([]byte, error) {
	var kind, text, refusal, image, file, mark []byte
	if err := read(raw, bind{"type", &kind}, bind{"text", &text}, bind{"refusal", &refusal},
		bind{"image_url", &image}, bind{"file", &file}, bind{"cache_control", &mark}); err != nil {
		return dst, err
	}
	if mark == nil {
		mark = cache
	}
	switch k := string(inner(kind)); {
	case k == "text":
		if !isString(text) {
			return dst, fail("text", "This must be a string.")
		}
		return appendText(dst, text, mark)
	case k == "refusal" && rules == ownWords:
		if !isString(refusal) {
			return dst, fail("refusal", "This must be a string.")
		}
		return appendText(dst, refusal, mark)
	case k == "image_url" && rules == anyInput:
		dst, err := appendImage(dst, image, mark)
		return dst, within(err, "image_url")
	case k == "file" && rules == anyInput:
		dst, err := appendFile(dst, file, mark)
		return dst, within(err, "file")
	case k == "input_audio":
		return dst, fail("type", "The Anthropic model that serves this request cannot hear. Send text in the place of input_audio.")
	}
	return dst, fail("type", "The Anthropic model that serves this request takes no such part here.")
}

// appendImage appends an image, or a PDF that came as one, from a data: or
// http(s): URL. "detail" has no counterpart and is a hint.
func appendImage(dst, raw, cache []byte) ([]byte, error) {
	var url []byte
	if err := read(raw, bind{"url", &url}); err != nil {
		return dst, err
	}
	url = plainURL(url)
	if media, data, ok := dataURL(url); ok {
		return appendBase64(dst, media, data, nil, cache)
	}
	if !hasScheme(url, "http:") && !hasScheme(url, "https:") {
		return dst, fail("url", "This must be a data: URL in base64 or an http(s): URL.")
	}
	dst = append(comma(dst), `{"type":"image","source":{"type":"url","url":"`...)
	return appendBlockEnd(append(append(dst, url...), '"', '}'), cache)
}

func appendFile(dst, raw, cache []byte) ([]byte, error) {
	var id, data, name []byte
	if err := read(raw, bind{"file_id", &id}, bind{"file_data", &data}, bind{"filename", &name}); err != nil {
		return dst, err
	}
	if id != nil {
		return dst, fail("file_id", "The Anthropic model that serves this request cannot reach files kept elsewhere. Send file_data.")
	}
	media, content, ok := dataURL(plainURL(data))
	if !ok {
		return dst, fail("file_data", "This must be a data: URL in base64.")
	}
	if name != nil && !isString(name) {
		return dst, fail("filename", "This must be a string.")
	}
	return appendBase64(dst, media, content, name, cache)
}

// appendBase64 appends an image or a PDF; title may be nil.
func appendBase64(dst, media, data, title, cache []byte) ([]byte, error) {
	kind := "image"
	switch m := string(bytes.ToLower(media)); {
	case m == "application/pdf":
		kind = "document"
	case m == "image/jpg":
		media = []byte("image/jpeg") // as the API knows it
	case len(m) > len("image/") && m[:len("image/")] == "image/":
	default:
		return dst, fail("", "The Anthropic model that serves this request takes images and application/pdf, no other types of file.")
	}
	dst = append(append(comma(dst), `{"type":"`...), kind...)
	dst = append(append(dst, `","source":{"type":"base64","media_type":"`...), media...)
	dst = append(append(append(dst, `","data":"`...), data...), '"', '}')
	if title != nil && kind == "document" {
		dst = append(append(dst, `,"title":`...), title...)
	}
	return appendBlockEnd(dst, cache)
}

// plainURL returns what is between the quotes of a string, without the escapes
// that need not be there: some writers escape every slash.
func plainURL(raw []byte) []byte {
	if url := inner(raw); bytes.IndexByte(url, '\\') < 0 {
		return url
	}
	return inner(quote(nil, unquote(raw)))
}

// dataURL takes a data: URL in base64 apart.
func dataURL(url []byte) (media, data []byte, ok bool) {
	if !hasScheme(url, "data:") {
		return nil, nil, false
	}
	head, data, ok := bytes.Cut(url[len("data:"):], []byte(","))
	media, params, _ := bytes.Cut(head, []byte(";"))
	ok = ok && (bytes.EqualFold(params, []byte("base64")) ||
		len(params) > 7 && bytes.EqualFold(params[len(params)-7:], []byte(";base64")))
	return media, data, ok
}

func hasScheme(url []byte, scheme string) bool {
	return len(url) >= len(scheme) && bytes.EqualFold(url[:len(scheme)], []byte(scheme))
}
