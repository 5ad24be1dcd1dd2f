package rule

import (
	"context"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/throttle"
)

// Throttlers is what a store is given so that it knows rules, as in
// sqlite.Rules(rule.Throttlers()). It compiles the text of a queue's setting "throttle".
func Throttlers(list ...Option) func(text string) (throttle.Throttler, error) {
	return func(text string) (throttle.Throttler, error) { return Throttler(text, list...) }
}

// Throttler compiles a rule that decides which candidates of a queue may start. It sees of the
// candidate
//
//	kind, key, group string   weight, priority, attempt int   tags list(string)   meta map(string, string)   run_at, created_at timestamp
//
// and beside it now (the store's clock), limit (of the queue; 0 = none) and in_flight, which is
// narrowed by in_flight.kind("k"), .group("g") and .state("running", "awaiting" or "resumed"), in
// any combination, and answers jobs() and weight(), and list(), the first 1,000 of the jobs, each a
// map with id, kind, group, state, weight and priority.
//
// Its result is a bool, true to start, or one of start(), not_now(text), not_before(timestamp) and
// fail(reason):
//
//	in_flight.group(group).weight() + weight <= {"east": 40, "north": 30, "west": 30}[group]
//
// The error is an *sojourn.Error about the field throttle, with line and column.
func Throttler(text string, list ...Option) (throttle.Throttler, error) {
	b, err := newBounds(list)
	if err != nil {
		return nil, err
	}
	env, err := throttlerEnv()
	if err != nil {
		return nil, err
	}
	p, err := compile(env, "throttle", text, b, cel.BoolType, admissionType)
	if err != nil {
		return nil, err
	}
	return throttler{p}, nil
}

type throttler struct{ *program }

// Throttle evaluates the rule.
func (t throttler) Throttle(ctx context.Context, c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
	v, err := t.eval(ctx, &scene{c, f})
	if err != nil {
		return throttle.Admission{}, err
	}
	if a, ok := v.(admission); ok {
		return a.Admission, nil
	}
	return throttle.Admission{Start: v == types.True}, nil
}

// scene gives a rule its variables. It is an activation of CEL.
type scene struct {
	c *throttle.Candidate
	f *throttle.Flight
}

func (s *scene) Parent() cel.Activation { return nil }

func (s *scene) ResolveName(name string) (any, bool) {
	switch name {
	case "kind":
		return types.String(s.c.Kind), true
	case "key":
		return types.String(s.c.Key), true
	case "group":
		return types.String(s.c.Group), true
	case "weight":
		return types.Int(s.c.Weight), true
	case "priority":
		return types.Int(s.c.Priority), true
	case "attempt":
		return types.Int(s.c.Attempt), true
	case "tags":
		return types.NewStringList(types.DefaultTypeAdapter, s.c.Tags), true
	case "meta":
		return types.NewStringStringMap(types.DefaultTypeAdapter, s.c.Meta), true
	case "run_at":
		return types.Timestamp{Time: s.c.RunAt}, true
	case "created_at":
		return types.Timestamp{Time: s.c.CreatedAt}, true
	case "now":
		return types.Timestamp{Time: s.f.Now}, true
	case "limit":
		return types.Int(s.f.Limit), true
	case "in_flight":
		return flight{of: s.f}, true
	}
	return nil, false
}

// throttlerEnv is made once: it is the costly part of compiling.
var throttlerEnv = sync.OnceValues(func() (*cel.Env, error) {
	self := []*cel.Type{flightType}
	narrow := func(name string, with func(flight, string) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("in_flight_"+name, []*cel.Type{flightType, cel.StringType}, flightType,
			cel.BinaryBinding(func(f, v ref.Val) ref.Val { return with(f.(flight), string(v.(types.String))) })))
	}
	sum := func(name string, result *cel.Type, of func(flight) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("in_flight_"+name, self, result, cel.UnaryBinding(func(f ref.Val) ref.Val { return of(f.(flight)) })))
	}
	one := func(name string, arg *cel.Type, make func(ref.Val) ref.Val) cel.FunctionOpt {
		return cel.Overload(name+"_1", []*cel.Type{arg}, admissionType, cel.UnaryBinding(make))
	}
	none := func(name string, a throttle.Admission) cel.FunctionOpt {
		return cel.Overload(name+"_0", nil, admissionType, cel.FunctionBinding(func(...ref.Val) ref.Val { return admission{a} }))
	}
	text := func(v ref.Val) string { return sojourn.Cut(string(v.(types.String)), sojourn.MaxReason) }
	return cel.NewEnv(
		cel.ParserExpressionSizeLimit(sojourn.MaxRule), cel.ParserRecursionLimit(maxDepth), cel.ExpressionNestingDepthLimit(maxDepth),
		cel.DefaultUTCTimeZone(true),
		cel.Variable("kind", cel.StringType), cel.Variable("key", cel.StringType), cel.Variable("group", cel.StringType),
		cel.Variable("weight", cel.IntType), cel.Variable("priority", cel.IntType), cel.Variable("attempt", cel.IntType),
		cel.Variable("tags", cel.ListType(cel.StringType)), cel.Variable("meta", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("run_at", cel.TimestampType), cel.Variable("created_at", cel.TimestampType), cel.Variable("now", cel.TimestampType),
		cel.Variable("limit", cel.IntType), cel.Variable("in_flight", flightType),
		narrow("kind", func(f flight, v string) ref.Val { f.kind = &v; return f }),
		narrow("group", func(f flight, v string) ref.Val { f.group = &v; return f }),
		narrow("state", withState),
		sum("jobs", cel.IntType, func(f flight) ref.Val { return types.Int(f.of.Sum(f.matches).Jobs) }),
		sum("weight", cel.IntType, func(f flight) ref.Val { return types.Int(f.of.Sum(f.matches).Weight) }),
		sum("list", cel.ListType(cel.MapType(cel.StringType, cel.DynType)), flight.list),
		cel.Function("start", none("start", throttle.Admission{Start: true})),
		cel.Function("not_now", none("not_now", throttle.Admission{}),
			one("not_now", cel.StringType, func(v ref.Val) ref.Val { return admission{throttle.Admission{Text: text(v)}} })),
		cel.Function("not_before", one("not_before", cel.TimestampType, func(v ref.Val) ref.Val {
			return admission{throttle.Admission{NotBefore: v.(types.Timestamp).Time}}
		})),
		cel.Function("fail", one("fail", cel.StringType, func(v ref.Val) ref.Val {
			if text(v) == "" {
				return types.NewErr("fail() wants a reason")
			}
			return admission{throttle.Admission{Fail: text(v)}}
		})),
	)
})

// states of jobs in flight, as a rule names them.
var states = map[string]sojourn.State{"running": sojourn.Running, "awaiting": sojourn.Awaiting, "resumed": sojourn.Ready}

func withState(f flight, v string) ref.Val {
	s, ok := states[v]
	if !ok {
		return types.NewErr("state(%q): use running, awaiting or resumed", v)
	}
	f.state = s
	return f
}
