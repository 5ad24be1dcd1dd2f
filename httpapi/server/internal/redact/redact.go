// Package redact hides values inside of args, results and other JSON of jobs in the answers of a
// server. docs/decisions/075-redaction.md has the rules.
package redact

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// Mark stands in the place of a hidden value.
const Mark = `"[redacted]"`

// Limits of the paths of a server.
const (
	maxPaths = 64
	maxSteps = 16 // the root counted
)

// The roots of paths.
const (
	args        = "args"
	result      = "result"
	checkpoint  = "checkpoint"
	response    = "response"
	errorDetail = "error_detail"
)

// Paths are the paths of hidden values by their root. The zero value hides nothing. Safe for
// concurrent use.
type Paths struct{ of map[string][][]string }

// Parse reads paths such as args.card.number. CodeInvalid with the field redact if one is
// malformed.
func Parse(list []string) (Paths, error) {
	if len(list) > maxPaths {
		return Paths{}, sojourn.Invalid("redact", "%d paths are too many; use at most %d", len(list), maxPaths)
	}
	p := Paths{map[string][][]string{}}
	for _, text := range list {
		steps := strings.Split(text, ".")
		switch root := steps[0]; {
		case root != args && root != result && root != checkpoint && root != response && root != errorDetail:
			return Paths{}, sojourn.Invalid("redact", "%.64q does not begin with args, result, checkpoint, response or error_detail", text)
		case len(text) > sojourn.MaxKey || len(steps) > maxSteps:
			return Paths{}, sojourn.Invalid("redact", "%.64q is too long; use at most %d bytes and %d names", text, sojourn.MaxKey, maxSteps)
		}
		for _, s := range steps {
			if s == "" {
				return Paths{}, sojourn.Invalid("redact", "%.64q has an empty name; write a path such as args.card.number", text)
			}
		}
		p.of[steps[0]] = append(p.of[steps[0]], steps[1:])
	}
	return p, nil
}

// hide returns the bytes of a value without what the paths of its root name. Values that are not
// JSON are unchanged, unless a path names all of them. raw itself is not changed.
func (p Paths) hide(root string, raw []byte) []byte {
	paths := p.of[root]
	if len(paths) == 0 || len(raw) == 0 {
		return raw
	}
	for _, path := range paths {
		if len(path) == 0 {
			return []byte(Mark)
		}
	}
	h := hider{raw: raw, in: json.NewDecoder(bytes.NewReader(raw)), next: paths, root: paths}
	h.in.UseNumber()
	return h.run()
}

// hider copies JSON without the hidden values. It reads each token once, so its time is
// proportional to the bytes, however deep they are nested.
type hider struct {
	raw  []byte
	in   *json.Decoder
	out  []byte
	last int // up to here, raw is in out
	root [][]string
	next [][]string // paths that go on in the next value
	open []level
}

// level is an object or an array that is being read.
type level struct {
	object, value bool       // value: of an object, the next token is not a name
	paths         [][]string // that go on in its members
}

func (h *hider) run() []byte {
	for {
		token, err := h.in.Token()
		if err != nil { // the end, or no JSON from here on
			return append(h.out, h.raw[h.last:]...)
		}
		if name, is := token.(string); is && h.atName() {
			h.open[len(h.open)-1].value = true
			if h.enter(name) {
				h.skip()
			}
			continue
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			h.open = append(h.open, level{object: token == json.Delim('{'), paths: h.next})
		case json.Delim('}'), json.Delim(']'):
			h.open = h.open[:len(h.open)-1]
			h.after()
			continue
		default:
			h.after()
			continue
		}
	}
}

// atName reports whether the next string is the name of a member.
func (h *hider) atName() bool {
	return len(h.open) > 0 && h.open[len(h.open)-1].object && !h.open[len(h.open)-1].value
}

// enter finds the paths that go on below a name, and reports whether its value is hidden. Decoders
// ignore the case of names, so this does too.
func (h *hider) enter(name string) (hidden bool) {
	h.next = nil
	for _, path := range h.open[len(h.open)-1].paths {
		if path[0] != "*" && !strings.EqualFold(path[0], name) {
			continue
		}
		if len(path) == 1 {
			return true
		}
		h.next = append(h.next, path[1:])
	}
	return false
}

// after says which paths go on in what follows a value: the elements of an array have its paths.
func (h *hider) after() {
	if len(h.open) == 0 {
		h.next = h.root // another value behind the first
		return
	}
	h.open[len(h.open)-1].value = false
	h.next = h.open[len(h.open)-1].paths
}

// skip reads one value and puts the mark in its place. A value that does not end hides the rest.
func (h *hider) skip() {
	begin := int(h.in.InputOffset())
	for begin < len(h.raw) && strings.IndexByte(" \t\r\n:", h.raw[begin]) >= 0 {
		begin++
	}
	end := len(h.raw)
	for depth := 0; ; {
		token, err := h.in.Token()
		if err != nil {
			break
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			end = int(h.in.InputOffset())
			break
		}
	}
	h.out = append(append(h.out, h.raw[h.last:begin]...), Mark...)
	h.last = end
	h.after()
}
