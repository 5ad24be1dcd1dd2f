package parse

import (
	"fmt"
	"strconv"
	"time"
)

// FlagValue is the value of a flag, as package pflag reads it.
type FlagValue interface {
	Set(text string) error
	String() string
	Type() string // for the help
}

// none is how a limit without an end is written. It is stored as -1, and shown as none or -1.
const none = "none"

// limit is the value of a flag: T, or none.
type limit[T ~int64] struct {
	to   *T
	kind string
	read func(string) (T, error)
	show func(T) string
}

// DurationOrNone is a flag for a duration, such as 48h. none is -1.
func DurationOrNone(to *time.Duration) FlagValue {
	return limit[time.Duration]{to, "duration", time.ParseDuration, time.Duration.String}
}

// CountOrNone is a flag for a whole number. none is -1.
func CountOrNone(to *int64) FlagValue {
	return limit[int64]{to, "int", func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }, func(n int64) string { return strconv.FormatInt(n, 10) }}
}

// Set reads the text of the flag.
func (l limit[T]) Set(text string) error {
	if text == none {
		*l.to = -1
		return nil
	}
	v, err := l.read(text)
	if err != nil {
		return fmt.Errorf("write a %s or none: %w", l.kind, err)
	}
	*l.to = v
	return nil
}

// String shows the value; zero, which is no limit of one's own, is empty.
func (l limit[T]) String() string {
	switch {
	case l.to == nil || *l.to == 0:
		return ""
	case *l.to == -1:
		return none
	}
	return l.show(*l.to)
}

// Type names the kind of value in the help.
func (l limit[T]) Type() string { return l.kind }
