package translate

// msgPart is one part of a chat message: a piece of text as a JSON string, or
// a part of another kind as a whole object.
type msgPart struct{ text, object []byte }

// msgReadPart translates one content block into the parts that it comes to.
type msgReadPart func(at, kind string, raw []byte) ([]msgPart, error)

// msgParts translates content: a string or an array of blocks.
func msgParts(at string, raw []byte, read msgReadPart) (parts []msgPart, err error) {
	if msgIsString(raw) {
		return []msgPart{{text: raw}}, nil
	}
	if raw[0] != '[' {
		return nil, msgErrorf(at, "must be a string or an array of blocks")
	}
	i := 0
	for block := range msgElements(raw) {
		at := msgPath(at, i)
		if block[0] != '{' {
			return nil, msgErrorf(at, "must be an object")
		}
		kind := msgMember(block, "type")
		if err := msgRequired(at+".type", kind); err != nil {
			return nil, err
		}
		more, err := read(at, string(msgText(kind)), block)
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
		i++
	}
	return parts, nil
}

// msgAppendContent appends parts as the content of a chat message: a string as
// long as there is only text.
func msgAppendContent(dst []byte, parts []msgPart, between string) []byte {
	texts := make([][]byte, 0, len(parts))
	for _, p := range parts {
		if p.text != nil {
			texts = append(texts, p.text)
		}
	}
	if len(texts) == len(parts) {
		return msgAppendJoined(dst, between, texts)
	}
	dst = append(dst, '[')
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		if p.text == nil {
			dst = append(dst, p.object...)
			continue
		}
		dst = append(append(append(dst, `{"type":"text","text":`...), p.text...), '}')
	}
	return append(dst, ']')
}

// msgOnlyText reads a block where nothing but text may stand.
func msgOnlyText(at, kind string, raw []byte) ([]msgPart, error) {
	if kind != "text" {
		return nil, msgUnknownBlock(at, kind)
	}
	var text []byte
	err := msgRead(at, raw, msgDrop("type"), msgDrop("cache_control"), msgDrop("citations"), msgTake("text", &text))
	if err != nil {
		return nil, err
	}
	if err := msgRequired(at+".text", text); err != nil {
		return nil, err
	}
	return []msgPart{{text: text}}, nil
}

// msgUserPart reads a block of a user's turn or of a tool's result.
func msgUserPart(at, kind string, raw []byte) ([]msgPart, error) {
	switch kind {
	case "text":
		return msgOnlyText(at, kind, raw)
	case "image":
		return msgImage(at, raw)
	case "document":
		return msgDocument(at, raw)
	}
	return nil, msgUnknownBlock(at, kind)
}

func msgUnknownBlock(at, kind string) error {
	const most = 60
	return msgErrorf(at+".type", "is %.*q, which cannot be translated for an OpenAI-type upstream here", most, kind)
}

// msgSource is where an image or a document is.
type msgSource struct{ kind, mediaType, data, url, content []byte }

func msgReadSource(at string, raw []byte) (s msgSource, kind string, err error) {
	err = msgRead(at, raw, msgTake("type", &s.kind), msgTake("media_type", &s.mediaType),
		msgTake("data", &s.data), msgTake("url", &s.url), msgTake("content", &s.content))
	if err != nil {
		return s, "", err
	}
	return s, string(msgText(s.kind)), nil
}

func msgImage(at string, raw []byte) ([]msgPart, error) {
	var source []byte
	if err := msgRead(at, raw, msgDrop("type"), msgDrop("cache_control"), msgTake("source", &source)); err != nil {
		return nil, err
	}
	at += ".source"
	s, kind, err := msgReadSource(at, source)
	if err != nil {
		return nil, err
	}
	part := []byte(`{"type":"image_url","image_url":{"url":`)
	switch kind {
	case "base64":
		if part, err = s.appendData(part, at); err != nil {
			return nil, err
		}
	case "url":
		if err := msgRequired(at+".url", s.url); err != nil {
			return nil, err
		}
		part = append(part, s.url...)
	default:
		return nil, msgErrorf(at+".type", `must be "base64" or "url" for an OpenAI-type upstream`)
	}
	return []msgPart{{object: append(part, `}}`...)}}, nil
}

// appendData appends the source's bytes as a data URL.
func (s *msgSource) appendData(dst []byte, at string) ([]byte, error) {
	if err := msgRequired(at+".media_type", s.mediaType); err != nil {
		return nil, err
	}
	if err := msgRequired(at+".data", s.data); err != nil {
		return nil, err
	}
	dst = append(append(dst, `"data:`...), s.mediaType[1:len(s.mediaType)-1]...)
	return append(append(dst, `;base64,`...), s.data[1:]...), nil
}

// msgDocument reads a document: a PDF becomes a file, text becomes text, with
// its title and context in front as the model would be shown them.
func msgDocument(at string, raw []byte) ([]msgPart, error) {
	var source, title, context, citations []byte
	err := msgRead(at, raw, msgDrop("type"), msgDrop("cache_control"), msgTake("source", &source),
		msgTake("title", &title), msgTake("context", &context), msgTake("citations", &citations))
	if err != nil {
		return nil, err
	}
	if string(msgMember(citations, "enabled")) == "true" {
		return nil, msgErrorf(at+".citations", "cannot be had from an OpenAI-type upstream")
	}
	var parts []msgPart
	for _, f := range []struct {
		name string
		raw  []byte
	}{{".title", title}, {".context", context}} {
		if f.raw == nil {
			continue
		}
		if err := msgRequired(at+f.name, f.raw); err != nil {
			return nil, err
		}
		parts = append(parts, msgPart{text: f.raw})
	}
	more, err := msgDocumentSource(at+".source", source, title)
	return append(parts, more...), err
}

func msgDocumentSource(at string, source, title []byte) ([]msgPart, error) {
	s, kind, err := msgReadSource(at, source)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "text":
		if err := msgRequired(at+".data", s.data); err != nil {
			return nil, err
		}
		return []msgPart{{text: s.data}}, nil
	case "content":
		if s.content == nil {
			return nil, msgErrorf(at+".content", "is required")
		}
		return msgParts(at+".content", s.content, func(at, kind string, raw []byte) ([]msgPart, error) {
			if kind == "image" {
				return msgImage(at, raw)
			}
			return msgOnlyText(at, kind, raw)
		})
	case "base64":
		if title == nil {
			title = []byte(`"document.pdf"`)
		}
		part := append(append([]byte(`{"type":"file","file":{"filename":`), title...), `,"file_data":`...)
		if part, err = s.appendData(part, at); err != nil {
			return nil, err
		}
		return []msgPart{{object: append(part, `}}`...)}}, nil
	}
	return nil, msgErrorf(at+".type", `must be "base64", "text" or "content" for an OpenAI-type upstream`)
}
