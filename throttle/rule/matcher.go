package rule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
)

// Match are the rules that convert a message of a source into a response. Each is a text in CEL;
// Kind and Key are required, all others may be empty. A rule can read of the message
//
//	topic, key, id, content_type string   headers map(string, string)   time timestamp   raw bytes   body dyn
//
// where body is the body read as JSON: if a rule reads it and the message is not JSON, the message
// is parked as undecodable. Whole numbers stay whole.
type Match struct {
	When     string // bool: false passes the message over. Default: true
	Kind     string // string: the kind of the job
	Key      string // string or int: the key of the job
	ID       string // string or int: the sender's own id of the message. Default: the broker's
	OK       string // bool: false makes it an error response. Default: true
	Reason   string // string: of an error response
	Error    string // string: of an error response
	Progress string // bool: true makes it a sign of life that answers nothing; the body is its text. Default: false
	Body     string // string or bytes, kept as they are, or anything else, kept as JSON: the body of the response. Default: that of the message
}

// matchBudget bounds the time of one rule for a message. A slower rule would park a good message,
// so the bound is longer than for throttlers: it only covers work that the cost does not bound.
const matchBudget = 5 * time.Second

// RuleError is the error of one rule of a Match.
type RuleError struct {
	Rule string // its name, such as "key"
	Err  error
}

func (e *RuleError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *RuleError) Unwrap() error { return e.Err }

// Matcher compiles the rules of a source. An error is an *RuleError that holds an *sojourn.Error
// about the rule's name, with line and column in its text. A message whose rule fails is parked
// under source.ReasonRule, with the same position.
func Matcher(m Match, list ...Option) (source.Matcher, error) {
	b, err := newBounds(append([]Option{Budget(matchBudget)}, list...))
	if err != nil {
		return nil, err
	}
	env, err := messageEnv()
	if err != nil {
		return nil, err
	}
	var set rules
	texts := []*cel.Type{cel.StringType, cel.IntType, cel.UintType, cel.DynType}
	truth := []*cel.Type{cel.BoolType, cel.DynType}
	for _, c := range []struct {
		name, text string
		to         **program
		results    []*cel.Type
		needed     bool
	}{
		{"when", m.When, &set.when, truth, false}, {"kind", m.Kind, &set.kind, texts, true}, {"key", m.Key, &set.key, texts, true},
		{"id", m.ID, &set.id, texts, false}, {"ok", m.OK, &set.ok, truth, false}, {"reason", m.Reason, &set.reason, texts, false},
		{"error", m.Error, &set.err, texts, false}, {"progress", m.Progress, &set.progress, truth, false},
		{"body", m.Body, &set.body, nil, false},
	} {
		if c.text == "" && !c.needed {
			continue
		}
		if *c.to, err = compile(env, c.name, c.text, b, c.results...); err != nil {
			return nil, &RuleError{c.name, err}
		}
	}
	return set.match, nil
}

// rules are the compiled ones; nil where there is none.
type rules struct{ when, kind, key, id, ok, reason, err, progress, body *program }

func (s rules) match(ctx context.Context, m *source.Message) (r *sojourn.Response, err error) {
	l := &letter{m: m}
	e := evaluation{ctx: ctx, of: l}
	defer func() {
		if e.err != nil {
			r, err = nil, e.err
		}
	}()
	if s.when != nil && !e.truth("when", s.when) {
		return nil, nil
	}
	r = &sojourn.Response{Kind: e.needed("kind", s.kind), Key: e.needed("key", s.key), MessageID: e.text("id", s.id)}
	switch {
	case s.progress != nil && e.truth("progress", s.progress):
		r.Progress = true
	case s.ok != nil && !e.truth("ok", s.ok):
		r.Failed, r.Reason, r.Error = true, e.text("reason", s.reason), e.text("error", s.err)
	}
	if s.body != nil {
		r.Body = e.bytes("body", s.body)
	}
	return r, nil
}

// evaluation runs the rules over one message. After the first error it runs no more.
type evaluation struct {
	ctx context.Context
	of  *letter
	err error
}

// value is nil if the rule failed.
func (e *evaluation) value(name string, p *program) ref.Val {
	if p == nil || e.err != nil {
		return nil
	}
	v, err := p.eval(e.ctx, e.of)
	switch {
	case e.of.unreadable != nil:
		e.err = &source.ParkError{Reason: source.ReasonUndecodable, Err: e.of.unreadable}
	case err != nil:
		e.failed(name, "%s%v", p.place(err), err)
	default:
		return v
	}
	return nil
}

func (e *evaluation) failed(name, format string, a ...any) {
	e.err = &source.ParkError{Reason: source.ReasonRule, Err: &RuleError{name, fmt.Errorf(name+": "+format, a...)}}
}

func (e *evaluation) truth(name string, p *program) bool {
	v := e.value(name, p)
	b, ok := v.(types.Bool)
	if v != nil && !ok {
		e.failed(name, "1:1: gives %s; it must give bool", v.Type().TypeName())
	}
	return bool(b)
}

func (e *evaluation) text(name string, p *program) string {
	switch v := e.value(name, p).(type) {
	case nil:
		return ""
	case types.String:
		return string(v)
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10)
	default:
		e.failed(name, "1:1: gives %s; it must give string or int", v.Type().TypeName())
		return ""
	}
}

func (e *evaluation) needed(name string, p *program) string {
	text := e.text(name, p)
	if text == "" && e.err == nil {
		e.failed(name, "1:1: gives an empty string")
	}
	return text
}

func (e *evaluation) bytes(name string, p *program) []byte {
	switch v := e.value(name, p).(type) {
	case nil:
		return nil
	case types.String:
		return []byte(v)
	case types.Bytes:
		return append([]byte{}, v...) // an empty one is no default
	default:
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		plain, err := plainValue(v)
		if err == nil {
			err = enc.Encode(plain)
		}
		if err != nil {
			e.failed(name, "1:1: %v", err)
		}
		return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
}

// plainValue turns a value into what encoding/json writes.
func plainValue(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return v.Value(), nil
	case types.Null:
		return nil, nil
	case traits.Mapper:
		out := map[string]any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			name := i.Next()
			text, ok := name.(types.String)
			if !ok {
				return nil, fmt.Errorf("the body has a map with a key of type %s; JSON needs strings", name.Type().TypeName())
			}
			one, err := plainValue(v.Get(name))
			if err != nil {
				return nil, err
			}
			out[string(text)] = one
		}
		return out, nil
	case traits.Lister:
		out := []any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			one, err := plainValue(i.Next())
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		return out, nil
	}
	return nil, fmt.Errorf("gives %s, which has no form in JSON; convert it to a string", v.Type().TypeName())
}

// letter gives rules the parts of a message. It is an activation of CEL. The body is parsed when a
// rule first reads it.
type letter struct {
	m          *source.Message
	body       any
	read       bool
	unreadable error
}

func (l *letter) Parent() cel.Activation { return nil }

func (l *letter) ResolveName(name string) (any, bool) {
	switch name {
	case "topic":
		return types.String(l.m.Topic), true
	case "key":
		return types.String(l.m.Key), true
	case "id":
		return types.String(l.m.ID), true
	case "content_type":
		return types.String(l.m.ContentType), true
	case "headers":
		return headers{types.NewStringStringMap(types.DefaultTypeAdapter, l.m.Headers)}, true
	case "time":
		return types.Timestamp{Time: l.m.Time}, true
	case "raw":
		return types.Bytes(l.m.Body), true
	case "body":
		if !l.read {
			l.read = true
			l.body, l.unreadable = readJSON(l.m.Body)
		}
		return l.body, l.unreadable == nil
	}
	return nil, false
}

// headers looks names up case-insensitively. The names themselves are in lower case, see
// source.Message.
type headers struct{ traits.Mapper }

func lower(key ref.Val) ref.Val {
	if name, ok := key.(types.String); ok {
		return types.String(strings.ToLower(string(name)))
	}
	return key
}

// Contains is the operator in.
func (h headers) Contains(key ref.Val) ref.Val { return h.Mapper.Contains(lower(key)) }

// Find is what rules look up by. An error names the key as the rule has it.
func (h headers) Find(key ref.Val) (ref.Val, bool) { return h.Mapper.Find(lower(key)) }

// Get is Find with an error for a name that is not there.
func (h headers) Get(key ref.Val) ref.Val {
	if v, found := h.Find(key); found {
		return v
	}
	return h.Mapper.Get(key)
}

// readJSON reads one value. Numbers become int or uint if they are whole and fit, else double.
func readJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("unexpected end of JSON input")
		}
		return nil, fmt.Errorf("the body is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the body is not JSON: more follows after the value, at byte %d", d.InputOffset())
	}
	return numbers(v), nil
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return u
		}
		f, _ := v.Float64() // beyond its range: infinite, as CEL has it
		return f
	case map[string]any:
		for k, one := range v {
			v[k] = numbers(one)
		}
	case []any:
		for i, one := range v {
			v[i] = numbers(one)
		}
	}
	return v
}

// messageEnv is made once: it is the costly part of compiling.
var messageEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.ParserExpressionSizeLimit(sojourn.MaxRule), cel.ParserRecursionLimit(maxDepth), cel.ExpressionNestingDepthLimit(maxDepth),
		cel.DefaultUTCTimeZone(true),
		cel.Variable("topic", cel.StringType), cel.Variable("key", cel.StringType), cel.Variable("id", cel.StringType),
		cel.Variable("content_type", cel.StringType), cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("time", cel.TimestampType), cel.Variable("raw", cel.BytesType), cel.Variable("body", cel.DynType),
	)
})
