// Package terminal formats output for people: tables, times and durations, and untrusted text that
// cannot act on the terminal.
package terminal

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// Table aligns columns, also those that are empty in some lines.
type Table struct {
	w    *tabwriter.Writer
	text *bytes.Buffer
	out  io.Writer
}

// NewTable starts a table; without a header, its first row is the first line.
func NewTable(out io.Writer, header ...string) Table {
	t := Table{text: &bytes.Buffer{}, out: out}
	t.w = tabwriter.NewWriter(t.text, 0, 8, 2, ' ', 0)
	if len(header) > 0 {
		t.Row(header...)
	}
	return t
}

// Row writes one line of cells. What stands in them may come from anywhere, so control characters
// do not reach the terminal.
func (t Table) Row(cells ...string) {
	for i := range cells {
		cells[i] = Clean(cells[i])
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t")) // errors stay in w until Flush
}

// Flush writes the lines, without the blanks at their ends.
func (t Table) Flush() error {
	if err := t.w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(t.text.String()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	t.text.Reset()
	return nil
}

// hidden reports whether a character would act on the terminal instead of being shown: control
// characters, line separators, and those that change the direction of text, which make it look like
// another text.
func hidden(r rune) bool {
	switch {
	case r == '\u061c', r == '\u200e', r == '\u200f', r == '\ufeff', r >= '\u2028' && r <= '\u202e', r >= '\u2060' && r <= '\u206f', r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return unicode.IsControl(r)
}

// escape shows hidden characters as Go writes them, such as \n, \x1b and \u202e, but for those in
// but.
func escape(text, but string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) && !strings.ContainsRune(but, r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Clean makes text safe for one line.
func Clean(text string) string { return escape(text, "") }

// Printable makes text of several lines safe for a terminal.
func Printable(text string) string { return escape(text, "\n\t") }

// Short cuts text for a column.
func Short(text string, n int) string {
	r := []rune(Clean(text))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// BytesText shows bytes as text if they are, else as a hex dump.
func BytesText(b []byte) string {
	if utf8.Valid(b) && !strings.ContainsFunc(string(b), func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }) {
		return strings.ReplaceAll(string(b), "\r\n", "\n")
	}
	return strings.TrimSuffix(hex.Dump(b), "\n")
}

// Human writes a duration with its two largest units.
func Human(d time.Duration) string {
	if d < 0 {
		return "-" + Human(-d)
	}
	s := int64(d.Seconds())
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// Ago writes a time seen from now; empty for no time.
func Ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d >= 0:
		return Human(d) + " ago"
	default:
		return "in " + Human(-d)
	}
}

// Stamp writes a time in full, and seen from now.
func Stamp(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339) + " (" + Ago(t, now) + ")"
}

// Quote makes a word safe for a POSIX shell.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.:/-=,@%+", r))
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Plural counts things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// IsTerminal reports whether w is one.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	stat, err := f.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}
