package admincli

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// gap are the blanks between two columns.
const gap = 2

// printer writes tables: rows are kept until the table ends, so that every
// column is as wide as its widest cell. Errors of the writer are kept until the end.
type printer struct {
	w    io.Writer
	env  *Env
	rows [][]string
	err  error
}

// row adds the cells of one line. What came from elsewhere cannot break the
// table or steer the terminal.
func (p *printer) row(cells ...string) {
	for i, c := range cells {
		if cells[i] = strings.Map(visible, c); c == "" {
			cells[i] = "-"
		}
	}
	p.rows = append(p.rows, cells)
}

// visible replaces what a terminal obeys or hides: control characters, and those
// that turn the direction of writing or take no place.
func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
		return '?'
	}
	return r
}

// blank ends a table; the next one has columns of its own.
func (p *printer) blank() {
	p.flush()
	p.write("\n")
}

// flush writes the rows that are waiting. The last cell of a row is as long as it is.
func (p *printer) flush() {
	var columns []int
	for _, cells := range p.rows {
		for i, c := range cells[:len(cells)-1] {
			if i == len(columns) {
				columns = append(columns, 0)
			}
			columns[i] = max(columns[i], columnsOf(c))
		}
	}
	for _, cells := range p.rows {
		last := len(cells) - 1
		for i, c := range cells[:last] {
			p.write(c + strings.Repeat(" ", columns[i]-columnsOf(c)+gap))
		}
		p.write(cells[last] + "\n")
	}
	p.rows = nil
}

func (p *printer) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// columnsOf returns how many places of a terminal a text takes.
func columnsOf(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case wide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

func wide(r rune) bool {
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}
