package admincli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"sluice/admin"
	"sluice/limiter"
)

// print shows an answer as JSON, or as show writes it.
func (o *globalOptions) print(w io.Writer, answer any, show func(*printer)) error {
	if o.output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(answer); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
		return nil
	}
	out := bufio.NewWriter(w)
	p := &printer{w: out, env: &o.env}
	show(p)
	p.flush()
	if err := out.Flush(); p.err == nil {
		p.err = err
	}
	if p.err != nil {
		return fmt.Errorf("write answer: %w", p.err)
	}
	return nil
}

// limit shows a limit; 0 is worth a word.
func limit(l limiter.Limit) string {
	if n, ok := l.Get(); ok && n == 0 {
		return "0 (blocked)"
	}
	return l.String()
}

// gauge shows used/limit.
func gauge(g admin.Gauge) string {
	return strconv.FormatInt(g.Used, 10) + "/" + g.Limit.String()
}

func percent(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) + "%" }

func share(s limiter.Share) string {
	if s.Kind == limiter.SharePercent {
		return percent(s.Value)
	}
	return admin.FormatShare(s)
}

// text shows a string that may be null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// all shows a list where empty means everything.
func all(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

// moment shows a time of the API without its fraction.
func moment(s *string) string {
	if s == nil {
		return ""
	}
	t, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil {
		return *s
	}
	return t.UTC().Format(time.DateTime) + " UTC"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
