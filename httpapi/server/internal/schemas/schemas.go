// Package schemas describes the types of requests and answers for the OpenAPI document.
package schemas

import (
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// NewRegistry makes a registry that describes types of the domain in the forms of the codec.
func NewRegistry() huma.Registry {
	registry := huma.NewMapRegistry("#/components/schemas/", namer)
	for goType, alias := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[time.Duration](): reflect.TypeFor[duration](), reflect.TypeFor[[]byte](): reflect.TypeFor[opaque](),
		reflect.TypeFor[sojourn.State](): reflect.TypeFor[state](), reflect.TypeFor[sojourn.Purpose](): reflect.TypeFor[purpose](),
		reflect.TypeFor[sojourn.Recovery]():   reflect.TypeFor[recovery](),
		reflect.TypeFor[sojourn.WaitMode]():   reflect.TypeFor[waitMode](),
		reflect.TypeFor[sojourn.OnConflict](): reflect.TypeFor[onConflict](),
		reflect.TypeFor[sojourn.Response]():   reflect.TypeFor[wire.Response](), reflect.TypeFor[[]sojourn.State](): reflect.TypeFor[states](),
	} {
		registry.RegisterTypeAlias(goType, alias)
	}
	return registry
}

// namer names a schema after its type; views of domain types go by the domain's name.
func namer(t reflect.Type, hint string) string {
	return strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "View")
}

// OpenAnswers lets answers have more fields than this version knows. Schemas that requests use stay
// closed, because requests are read strictly.
func OpenAnswers(doc *huma.OpenAPI, registry huma.Registry) {
	closed := map[string]bool{}
	var visit func(s *huma.Schema)
	visit = func(s *huma.Schema) {
		if s == nil || closed[s.Ref] {
			return
		}
		if s.Ref != "" {
			closed[s.Ref] = true
			visit(registry.SchemaFromRef(s.Ref))
			return
		}
		visit(s.Items)
		for _, p := range s.Properties {
			visit(p)
		}
	}
	for _, path := range doc.Paths {
		for _, o := range []*huma.Operation{path.Post, path.Put, path.Patch} {
			if o != nil && o.RequestBody != nil {
				for _, m := range o.RequestBody.Content {
					visit(m.Schema)
				}
			}
		}
	}
	for name, s := range registry.Map() {
		if !closed["#/components/schemas/"+name] && s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
	}
}

// Parameters are the fields of a request with a tag path or query.
func Parameters(registry huma.Registry, in reflect.Type) (all []*huma.Param) {
	for _, f := range reflect.VisibleFields(in) {
		p := &huma.Param{Name: f.Tag.Get("query"), In: "query", Description: f.Tag.Get("doc")}
		if name := f.Tag.Get("path"); name != "" {
			p.Name, p.In, p.Required = name, "path", true
		}
		if p.Name == "" {
			continue
		}
		p.Schema = registry.Schema(f.Type, true, "")
		if f.Type.Kind() == reflect.Slice {
			p.Schema.Nullable = false
		}
		all = append(all, p)
	}
	return all
}

// The forms that the codec gives to types of the domain.
type (
	duration   int64
	opaque     struct{}
	state      uint8
	states     struct{}
	purpose    uint8
	recovery   uint8
	waitMode   uint8
	onConflict uint8
)

// Schema describes a duration.
func (duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: "a duration with its unit, such as 90s, 0.5s, 1.5h or 1h30m; answers are in seconds",
		Examples: []any{"90s"}, Pattern: `^-?([0-9.]+(ns|us|µs|ms|s|m|h))+$`}
}

// Schema describes bytes.
func (opaque) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: `bytes: any JSON value, which stands for its own text, or {"$base64": "…"}`}
}

func words(list ...string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, w := range list {
		s.Enum = append(s.Enum, w)
	}
	return s
}

// Schema lists the states.
func (state) Schema(huma.Registry) *huma.Schema {
	var names []string
	for s := sojourn.State(0); s <= sojourn.Cancelled; s++ {
		names = append(names, s.String())
	}
	return words(names...)
}

// Schema describes a list of states, which would else look like bytes.
func (states) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: state(0).Schema(r)}
}

// Schema lists the purposes.
func (purpose) Schema(huma.Registry) *huma.Schema {
	var names []string
	for p := sojourn.NoPurpose; p <= sojourn.PurposePoll; p++ {
		names = append(names, p.String())
	}
	return words(names...)
}

// Schema lists the words.
func (recovery) Schema(huma.Registry) *huma.Schema { return words(jsonform.RecoveryNames...) }

// Schema lists the words.
func (waitMode) Schema(huma.Registry) *huma.Schema { return words(jsonform.WaitModeNames...) }

// Schema lists the words.
func (onConflict) Schema(huma.Registry) *huma.Schema { return words(jsonform.OnConflictNames...) }
