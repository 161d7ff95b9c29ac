package proxy

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"strings"
	"testing"
)

const formType = `multipart/form-data; boundary=XbX`

// formOf writes parts, each a header and a content, as clients do.
func formOf(parts ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(parts); i += 2 {
		b.WriteString("--XbX\r\n" + parts[i] + "\r\n\r\n" + parts[i+1] + "\r\n")
	}
	return b.String() + "--XbX--\r\n"
}

const (
	modelPart = `Content-Disposition: form-data; name="model"`
	filePart  = "Content-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\nContent-Type: audio/mpeg"
)

func field(name string) string { return `Content-Disposition: form-data; name="` + name + `"` }

func TestFormsThatReadersDifferOnAreRefused(t *testing.T) {
	for _, c := range []struct{ name, body, text string }{
		{"empty", "", "begin with its boundary"},
		{"JSON", `{"model":"m"}`, "begin with its boundary"},
		{"preamble", "hello\r\n" + formOf(modelPart, "m"), "begin with its boundary"},
		{"epilogue", formOf(modelPart, "m") + "more", "follows its end"},
		{"half a line behind the end", strings.TrimSuffix(formOf(modelPart, "m"), "\n"), "follows its end"},
		{"a form behind the end", formOf(modelPart, "m") + formOf(modelPart, "x"), "follows its end"},
		{"cut", strings.TrimSuffix(formOf(modelPart, "m"), "--XbX--\r\n"), "cut off"},
		{"cut in a header", "--XbX\r\n" + modelPart, "no header"},
		{"line feeds alone", strings.ReplaceAll(formOf(modelPart, "m"), "\r\n", "\n"), "inside of a line"},
		{"boundary goes on", "--XbXx\r\n" + modelPart + "\r\n\r\nm\r\n--XbX--", "inside of a line"},
		{"blanks behind the boundary", "--XbX \r\n" + modelPart + "\r\n\r\nm\r\n--XbX--", "inside of a line"},
		{"boundary in a content", formOf(modelPart, "m", filePart, "a\r\n--XbXy\r\nb"), "inside of a line"},
		{"boundary in the middle of a line", formOf(modelPart, "m", filePart, "a--XbX\r\n"), "inside of a line"},
		{"boundary after a line feed alone", formOf(modelPart, "m", filePart, "a\n--XbX\r\n"+modelPart+"\r\n\r\nx"), "inside of a line"},
		{"boundary in a header", formOf(`Content-Disposition: form-data; name="model"; x="--XbX"`, "m"), "inside of a line"},
		{"no content at all", "--XbX\r\n" + modelPart + "\r\n\r\n--XbX--", "inside of a line"},
		{"huge header", formOf(modelPart+"\r\nX-Pad: "+strings.Repeat("x", 9000), "m"), "too long"},
		{"many parts", formOf(strings.Split(strings.Repeat(field("a")+"|x|", 1001), "|")...), "more than 1000"},
		{"no disposition", formOf("Content-Type: text/plain", "m"), "no name"},
		{"no name", formOf("Content-Disposition: form-data", "m"), "no name"},
		{"attachment", formOf(`Content-Disposition: attachment; name="model"`, "m"), "not form-data"},
		{"two dispositions", formOf(modelPart+"\r\n"+field("file"), "m"), "two Content-Dispositions"},
		{"two types", formOf(modelPart+"\r\nContent-Type: a/b\r\ncontent-type: c/d", "m"), "two Content-Types"},
		{"two names", formOf(`Content-Disposition: form-data; name="file"; name="model"`, "m"), "twice"},
		{"name in another case", formOf(`Content-Disposition: form-data; name="x"; Name="model"`, "m"), "twice"},
		{"only a name in another case", formOf(`Content-Disposition: form-data; NAME="model"`, "m"), "unusual"},
		{"extended name", formOf(`Content-Disposition: form-data; name="x"; name*=UTF-8''model`, "m"), "unusual"},
		{"name in pieces", formOf(`Content-Disposition: form-data; name*0="mo"; name*1="del"`, "m"), "unusual"},
		{"escaped quotation mark", formOf(`Content-Disposition: form-data; filename="x\"; name=\"y"; name="model"`, "m"), "quotation mark"},
		{"name in a file name", formOf(`Content-Disposition: form-data; name="file"; filename="a; name=model"`, "m"), "looks like a parameter"},
		{"open quotes", formOf(`Content-Disposition: form-data; name="model`, "m"), "cannot be read"},
		{"folded header", formOf("Content-Disposition: form-data;\r\n name=\"model\"", "m"), "no name"},
		{"folded in a text", formOf("Content-Disposition: form-data; name=\"mo\r\n del\"", "m"), "cannot be read"},
		{"blank before the colon", formOf(`Content-Disposition : form-data; name="model"`, "m"), "cannot be read"},
		{"carriage return alone", formOf("Content-Disposition: form-data; name=\"a\"\rX: y", "m"), "control character"},
		{"NUL", formOf("Content-Disposition: form-data; name=\"model\x00\"", "m"), "control character"},
		{"form in a form", formOf(modelPart, "m", field("x")+"\r\nContent-Type: multipart/mixed; boundary=Y", "--Y--"), "a form of its own"},
		{"quoted-printable", formOf(modelPart+"\r\nContent-Transfer-Encoding: quoted-printable", "=6d"), "Transfer-Encoding"},
		{"model twice", formOf(modelPart, "cheap", modelPart, "dear"), "more than once"},
		{"variant", formOf(modelPart, "m", field("Model"), "x"), "variant"},
		{"list", formOf(modelPart, "m", field("model[]"), "x"), "variant"},
		{"encoded", formOf(modelPart, "m", field("%6dodel"), "x"), "variant"},
		{"blank", formOf(modelPart, "m", field("model "), "x"), "variant"},
		{"model as a file", formOf(`Content-Disposition: form-data; name="model"; filename="m"`, "m"), "not a file"},
		{"model in another charset", formOf(modelPart+"\r\nContent-Type: text/plain; charset=utf-16", "m"), "plain text"},
		{"escape in a name", formOf(modelPart, "m", field(`mo\del`), "x"), "backslash"},
		{"another charset for the fields", formOf(modelPart, "m", field("_charset_"), "utf-7"), "_charset_"},
		{"stream twice", formOf(modelPart, "m", field("stream"), "true", field("stream"), "false"), "more than once"},
		{"n is a word", formOf(modelPart, "m", field("n"), "many"), "whole number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := scanForm([]byte(c.body), "XbX")
			var e *Error
			if !errors.As(err, &e) || e.Status != 400 || !strings.Contains(e.Message, c.text) {
				t.Errorf("%+v, %v; want a 400 with %q", f, err, c.text)
			}
		})
	}
}

func TestFormsOfClientsAreRead(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       form
	}{
		{"fields and a file", formOf(filePart, "\x00\xff\r\n-- XbX", modelPart, "whisper", field("stream"), "True"), form{model: "whisper", stream: true, n: 1, text: 11, files: 1}},
		{"images", formOf(modelPart+"\r\nContent-Type: text/plain; charset=UTF-8", "dall", field("n"), "3", field("image[]")+`; filename="日本.png"`, "png"), form{model: "dall", n: 3, text: 5, files: 1}},
		{"no quotes", formOf("content-disposition: form-data; name=model", "m"), form{model: "m", n: 1, text: 1}},
		{"extended file name", formOf(modelPart, "m", `Content-Disposition: form-data; name="file"; filename="x"; filename*=UTF-8''%e2%82%ac`, "f"), form{model: "m", n: 1, text: 1, files: 1}},
		{"empty model", formOf(modelPart, ""), form{n: 1}},
		{"no model", formOf(field("language"), "en"), form{n: 1, text: 2}},
		{"no part", "--XbX--", form{n: 1}},
		{"binary encoding named", formOf(modelPart, "m", filePart+"\r\nContent-Transfer-Encoding: binary", "f"), form{model: "m", n: 1, text: 1, files: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := scanForm([]byte(c.body), "XbX")
			got.modelAt, got.boundary = span{}, ""
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestFormBoundary(t *testing.T) {
	for _, c := range []struct {
		name  string
		types []string
		want  string // "" is an error
	}{
		{"plain", []string{"multipart/form-data; boundary=abc"}, "abc"},
		{"quoted", []string{`Multipart/Form-Data; charset=utf-8; boundary="a:b=c"`}, "a:b=c"},
		{"a charset that makes other names of the same bytes", []string{"multipart/form-data; boundary=abc; charset=utf-7"}, ""},
		{"the same in quotes", []string{`multipart/form-data; Charset="cp037"; boundary=abc`}, ""},
		{"none", []string{"multipart/form-data"}, ""},
		{"empty", []string{"multipart/form-data; boundary="}, ""},
		{"two", []string{"multipart/form-data; boundary=a; boundary=b"}, ""},
		{"two types", []string{"multipart/form-data; boundary=a", "multipart/form-data; boundary=b"}, ""},
		{"mixed", []string{"multipart/mixed; boundary=a"}, ""},
		{"in pieces", []string{"multipart/form-data; boundary*0=a; boundary*1=b"}, ""},
		{"escaped", []string{`multipart/form-data; boundary="a\b"`}, ""},
		{"blank", []string{`multipart/form-data; boundary="a b"`}, ""},
		{"semicolon", []string{`multipart/form-data; boundary="a;boundary=b"`}, ""},
		{"long", []string{"multipart/form-data; boundary=" + strings.Repeat("x", 71)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := formBoundary(c.types); got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// readAll reads a form as another reader does.
func readAll(body []byte) (parts [][2]string, err error) {
	r := multipart.NewReader(bytes.NewReader(body), "XbX")
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, [2]string{p.FormName(), string(b)})
	}
}

// FuzzForm holds the scanner against another reader: of what it accepts both
// see the same model, and a new one is the only change.
func FuzzForm(f *testing.F) {
	for _, s := range []string{
		formOf(filePart, "\x00\xff\r\n", modelPart, "whisper", field("stream"), "true"),
		formOf(field("a"), "b"), "--XbX--", formOf(modelPart, "", field("n"), "2"),
		formOf(`Content-Disposition: form-data; filename="x\"; name=\"y"; name="model"`, "m"),
		formOf(modelPart, "m", filePart, "a\n--XbX\r\n"), formOf("Content-Disposition: form-data;\r\n name=\"model\"", "m"),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := scanForm(body, "XbX")
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("scanForm returned %v", err)
			}
			return
		}
		if bytes.Equal(bytes.TrimRight(body, "\r\n"), []byte("--XbX--")) {
			return // the other reader wants a part
		}
		before, err := readAll(body)
		if err != nil {
			t.Fatalf("accepted what another reader refuses: %v: %q", err, body)
		}
		after, err := readAll(got.rewrite(nil, body, "new/model"))
		if err != nil {
			t.Fatalf("rewrote %q to what cannot be read: %v", body, err)
		}
		model, models := "", 0
		for _, p := range before {
			if strings.EqualFold(p[0], "model") {
				model = p[1]
				models++
			}
		}
		if models > 1 || model != got.model {
			t.Fatalf("read model %q, another reader %q (%d): %q", got.model, model, models, body)
		}
		if models == 0 {
			before = append([][2]string{{"model", ""}}, before...)
		}
		for i, p := range before {
			want := p[1]
			if p[0] == "model" {
				want = "new/model"
			}
			if i >= len(after) || after[i] != [2]string{p[0], want} {
				t.Fatalf("rewrote %q to %q", before, after)
			}
		}
	})
}

func FuzzHeaderParsers(f *testing.F) {
	for _, s := range []string{formType, `multipart/form-data; boundary="a:b=c"`, "authorization, x-api-key", "gzip;q=0, br", "keep-alive, x-evil", "multipart/form-data; boundary*=utf-8''x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if b, err := formBoundary([]string{v}); err == nil {
			if strings.Count(strings.ToLower(v), "boundary=") == 0 || !strings.Contains(v, b) || strings.ContainsAny(b, " \";\\\r\n") {
				t.Fatalf("boundary %q of %q", b, v)
			}
		}
		for name := range strings.SplitSeq(askedHeaders([]string{v}), ", ") {
			if name != "" && !isToken(name) {
				t.Fatalf("header %q of %q", name, v)
			}
		}
		if packed, err := contentEncoding([]string{v}); packed && (err != nil || !strings.Contains(strings.ToLower(v), "gzip")) {
			t.Fatalf("%q is taken for gzip", v)
		}
		for name := range connectionNames(map[string][]string{"Connection": {v}}) {
			if name == "" || strings.Contains(name, ",") {
				t.Fatalf("connection name %q of %q", name, v)
			}
		}
		if acceptsEncoding(map[string][]string{"Accept-Encoding": {v}}, "br") && !strings.Contains(strings.ToLower(v), "br") {
			t.Fatalf("%q is taken to accept br", v)
		}
	})
}
