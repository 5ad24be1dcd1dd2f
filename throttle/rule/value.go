package rule

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/throttle"
)

var (
	flightType    = cel.OpaqueType("in_flight")
	admissionType = cel.OpaqueType("verdict")
)

// flight is the value of in_flight in a rule: all that is in flight, or what its parts narrow it
// to. nil and 0 mean any.
type flight struct {
	of          *throttle.Flight
	kind, group *string
	state       sojourn.State
}

func (f flight) matches(l throttle.FlightLoad) bool {
	return (f.kind == nil || l.Kind == *f.kind) && (f.group == nil || l.Group == *f.group) && (f.state == 0 || l.State == f.state)
}

func (f flight) list() ref.Val {
	var out []ref.Val
	for _, j := range f.of.List {
		if !f.matches(throttle.FlightLoad{Kind: j.Kind, Group: j.Group, State: j.State}) {
			continue
		}
		state := j.State.String()
		if j.State == sojourn.Ready {
			state = "resumed"
		}
		out = append(out, types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{
			types.String("id"): types.Int(j.ID), types.String("kind"): types.String(j.Kind), types.String("group"): types.String(j.Group),
			types.String("state"): types.String(state), types.String("weight"): types.Int(j.Weight), types.String("priority"): types.Int(j.Priority),
		}))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out)
}

// ConvertToNative is part of ref.Val.
func (f flight) ConvertToNative(t reflect.Type) (any, error) { return native(f, t) }

// ConvertToType is part of ref.Val.
func (f flight) ConvertToType(t ref.Type) ref.Val { return convert(f, t) }

// Equal is part of ref.Val.
func (f flight) Equal(other ref.Val) ref.Val {
	o, ok := other.(flight)
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return types.Bool(ok && o.of == f.of && same(o.kind, f.kind) && same(o.group, f.group) && o.state == f.state)
}

// Type is part of ref.Val.
func (f flight) Type() ref.Type { return flightType }

// Value is part of ref.Val.
func (f flight) Value() any { return f.of }

// admission is the value of start(), not_now(), not_before() and fail().
type admission struct{ throttle.Admission }

// ConvertToNative is part of ref.Val.
func (a admission) ConvertToNative(t reflect.Type) (any, error) { return native(a, t) }

// ConvertToType is part of ref.Val.
func (a admission) ConvertToType(t ref.Type) ref.Val { return convert(a, t) }

// Equal is part of ref.Val.
func (a admission) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(a)) }

// Type is part of ref.Val.
func (a admission) Type() ref.Type { return admissionType }

// Value is part of ref.Val.
func (a admission) Value() any { return a.Admission }

func native(v ref.Val, t reflect.Type) (any, error) {
	if value := reflect.ValueOf(v.Value()); value.Type().AssignableTo(t) {
		return v.Value(), nil
	}
	return nil, fmt.Errorf("%s does not convert to %v", v.Type().TypeName(), t)
}

func convert(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(*types.Type)
	}
	return types.NewErr("%s does not convert to %s", v.Type().TypeName(), t.TypeName())
}
