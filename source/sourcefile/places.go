package sourcefile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// place is the position of a source, or of one of its fields, in the file.
type place struct {
	source int
	field  string // empty: the source itself
}

// places gives the lines of a file.
type places map[place]int

// placesOf finds the lines of a text that has been decoded without an error.
func placesOf(text []byte) places {
	found := places{}
	var p unstable.Parser
	p.Reset(text)
	at, top := -1, false
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.ArrayTable, unstable.Table:
			keys, line := path(&p, e)
			if top = e.Kind == unstable.ArrayTable && len(keys) == 1; top {
				at++
				found[place{at, ""}] = line
			} else if len(keys) == 2 {
				found[place{at, keys[1]}] = line
			}
		case unstable.KeyValue:
			if keys, line := path(&p, e); top {
				found[place{at, keys[0]}] = line
			}
		}
	}
	return found
}

// path returns the key of an expression and its line.
func path(p *unstable.Parser, e *unstable.Node) (keys []string, line int) {
	for k := e.Key(); k.Next(); {
		if line == 0 {
			line = p.Shape(k.Node().Raw).Start.Line
		}
		keys = append(keys, string(k.Node().Data))
	}
	return keys, line
}

// locate names file and line in an error about a source. A position in the text of a rule stays in
// the message.
func (w places) locate(name string, source int, err error) error {
	field, message := "", err.Error()
	if e, ok := errors.AsType[*sojourn.Error](err); ok {
		field, message = e.Field, e.Field+": "+e.Message
	}
	field, _, _ = strings.Cut(field, ".")
	if r, ok := errors.AsType[*rule.RuleError](err); ok {
		field = r.Rule
	}
	line := w[place{source, field}]
	if line == 0 {
		line = w[place{source, ""}]
	}
	return sojourn.Invalid("file", "%s", fmt.Sprintf("%s:%d: %s", name, line, message))
}
