package admincli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/admin"
	"sluice/limiter"
)

// printer writes tables. Errors of the writer are kept until the end.
type printer struct {
	tab *tabwriter.Writer
	err error
}

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
	p := &printer{tab: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	show(p)
	if err := p.tab.Flush(); p.err == nil {
		p.err = err
	}
	if p.err != nil {
		return fmt.Errorf("write answer: %w", p.err)
	}
	return nil
}

// row writes the cells of one line. What came from elsewhere cannot break the
// table or steer the terminal.
func (p *printer) row(cells ...string) {
	for i, c := range cells {
		c = strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return '?'
			}
			return r
		}, c)
		if c == "" {
			c = "-"
		}
		cells[i] = c
	}
	line := strings.Join(cells, "\t") + "\n"
	if _, err := io.WriteString(p.tab, line); err != nil && p.err == nil {
		p.err = err
	}
}

// blank ends a table; the next one has columns of its own.
func (p *printer) blank() {
	if err := p.tab.Flush(); err != nil && p.err == nil {
		p.err = err
	}
	if _, err := io.WriteString(p.tab, "\n"); err != nil && p.err == nil {
		p.err = err
	}
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
