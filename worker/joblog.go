package worker

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/sojourn-queue/sojourn"
)

// jobLog is the slog.Handler of Job.Log. It buffers the lines of one step until the reporter takes
// them: at most a second, or with the outcome. It never waits and is bounded: if lines are not
// taken in time, only the step's first and the newest 99 stay.
type jobLog struct {
	*lines
	group string // prefix of the names of attributes, such as "request."
	attrs string // those of WithAttrs, as text
}

// lines are the lines that the reporter has not taken yet.
type lines struct {
	attempt int32
	wake    chan struct{}

	mu    sync.Mutex // guards the fields below
	wait  []sojourn.LogLine
	first bool // wait[0] is the first line of the step
	taken bool // the first line was among those taken last
	any   bool // there was a line
}

// Enabled is true for all levels: readers of the log of one job want every line.
func (l *jobLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps the record as one line: the message and the attributes, name=value.
func (l *jobLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, l.group, a)
		return b.Len() < 2*sojourn.MaxProgress // it is cut anyway
	})
	l.add(sojourn.LogLine{Attempt: l.attempt, Level: r.Level.String(), Text: sojourn.Cut(b.String(), sojourn.MaxProgress)})
	return nil
}

// WithAttrs gives a handler that adds attrs to each line.
func (l *jobLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, l.group, a)
	}
	return &jobLog{l.lines, l.group, l.attrs + b.String()}
}

// WithGroup returns a handler that prefixes the names of later attributes with name.
func (l *jobLog) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	return &jobLog{l.lines, l.group + name + ".", l.attrs}
}

func writeAttr(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return
	}
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, in := range v.Group() {
			writeAttr(b, group, in)
		}
		return
	}
	b.WriteByte(' ')
	b.WriteString(plain(group + a.Key))
	b.WriteByte('=')
	b.WriteString(plain(v.String()))
}

// plain quotes text that is not a single word.
func plain(s string) string {
	odd := func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '=' || !unicode.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

func (l *lines) add(line sojourn.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.any {
		l.any, l.first = true, true
	}
	l.wait = append(l.wait, line)
	l.bound()
	signal(l.wake)
}

// bound drops the oldest lines but the step's first; the next line has their number. l.mu is held.
func (l *lines) bound() {
	over := len(l.wait) - sojourn.MaxLogLines
	if over <= 0 {
		return
	}
	from := 0
	if l.first {
		from = 1
	}
	dropped := int64(over)
	for _, d := range l.wait[from : from+over] {
		dropped += d.Dropped
	}
	l.wait = append(l.wait[:from], l.wait[from+over:]...)
	l.wait[from].Dropped += dropped
}

// take takes all lines away.
func (l *lines) take() []sojourn.LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.wait
	l.wait = nil
	l.taken, l.first = l.first && len(out) > 0, false
	return out
}

// peek gives all lines and leaves them.
func (l *lines) peek() []sojourn.LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.wait)
}

// putBack puts lines that could not be saved before those that have come since.
func (l *lines) putBack(old []sojourn.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wait = append(old, l.wait...)
	l.first = l.taken
	l.bound()
}

func (l *lines) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wait) > 0
}
