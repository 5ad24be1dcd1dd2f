package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
)

func (a *app) asJSON() bool { return a.output == "json" }

// json writes v on one line.
func (a *app) json(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// jsonLines writes each of list on a line of its own.
func jsonLines[T any](a *app, list []T) error {
	for _, v := range list {
		if err := a.json(v); err != nil {
			return err
		}
	}
	return nil
}

// printf writes a sentence for people; with -o json, nothing.
func (a *app) printf(format string, args ...any) error {
	if a.asJSON() {
		return nil
	}
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// result shows one thing: as JSON, or as a sentence for people.
func (a *app) result(v any, format string, args ...any) error {
	if a.asJSON() {
		return a.json(v)
	}
	return a.printf(format, args...)
}

// table aligns columns, also those that are empty in some lines.
type table struct {
	w    *tabwriter.Writer
	text *bytes.Buffer
	out  io.Writer
}

func newTable(out io.Writer, header ...string) table {
	t := table{text: &bytes.Buffer{}, out: out}
	t.w = tabwriter.NewWriter(t.text, 0, 8, 2, ' ', 0)
	if len(header) > 0 {
		t.row(header...)
	}
	return t
}

// row writes one line of cells. What stands in them may come from anywhere, so control characters
// do not reach the terminal.
func (t table) row(cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i])
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t")) // errors stay in w until Flush
}

// flush writes the lines, without the blanks at their ends.
func (t table) flush() error {
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

// clean makes text safe for one line.
func clean(text string) string { return escape(text, "") }

// printable makes text of several lines safe for a terminal.
func printable(text string) string { return escape(text, "\n\t") }

// short cuts text for a column.
func short(text string, n int) string {
	r := []rune(clean(text))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// bytesText shows bytes as text if they are, else as a hex dump.
func bytesText(b []byte) string {
	if utf8.Valid(b) && !strings.ContainsFunc(string(b), func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }) {
		return strings.ReplaceAll(string(b), "\r\n", "\n")
	}
	return strings.TrimSuffix(hex.Dump(b), "\n")
}

// human writes a duration with its two largest units.
func human(d time.Duration) string {
	if d < 0 {
		return "-" + human(-d)
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

// ago writes a time seen from now; empty for no time.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d >= 0:
		return human(d) + " ago"
	default:
		return "in " + human(-d)
	}
}

// stamp writes a time in full, and seen from now.
func stamp(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339) + " (" + ago(t, now) + ")"
}

// nextPage tells, on stderr, how to read on: the same command with another place to start.
func (a *app) nextPage(cmd *cobra.Command, args []string, flag, last string) {
	words := strings.Fields(cmd.CommandPath())
	for _, arg := range args {
		words = append(words, quote(arg))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == flag {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				words = append(words, "--"+f.Name, quote(v))
			}
			return
		}
		if f.Value.Type() == "bool" {
			words = append(words, "--"+f.Name+"="+f.Value.String())
			return
		}
		words = append(words, "--"+f.Name, quote(f.Value.String()))
	})
	fmt.Fprintf(a.err, "more: %s --%s %s\n", strings.Join(words, " "), flag, clean(quote(last)))
}

// quote makes a word safe for a POSIX shell.
func quote(word string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.:/-=,@%+", r))
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// stateText names a job's state as people see it.
func stateText(j sojourn.Job) string {
	if j.Resumed {
		return j.State.String() + ", resumed"
	}
	return j.State.String()
}
