package server

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/events"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/schemas"
)

//go:generate go test -run ^TestSpecificationIsFresh$ -update

//go:embed openapi.json
var embedded []byte

// specification is the description of the API as it was when the program was built; a test holds it
// against the routes.
func specification() []byte { return embedded }

// Extensions of an operation in the description.
const (
	verbExtension   = "x-sojourn-verb"
	classExtension  = "x-sojourn-class"
	othersExtension = "x-sojourn-others"
)

const securityScheme = "bearer"

// describe makes the OpenAPI 3.1 document out of the table of routes.
func describe() ([]byte, error) {
	registry := schemas.NewRegistry()
	doc := &huma.OpenAPI{OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Sojourn", Version: "1", Description: "A durable job queue for work that waits on the outside world. See docs/reference/http.md.",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}},
		Servers: []*huma.Server{{URL: "/"}},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			securityScheme: {Type: "http", Scheme: "bearer", Description: "a token of sojourn token create; admin has all verbs"}}}}
	problem := registry.Schema(reflect.TypeFor[wire.Problem](), true, "Problem")
	for _, rt := range routes {
		doc.AddOperation(operationOf(registry, rt, problem))
	}
	schemas.OpenAnswers(doc, registry)
	b, err := json.MarshalIndent(doc, "", " ")
	return append(b, '\n'), err
}

func operationOf(registry huma.Registry, rt route, problem *huma.Schema) *huma.Operation {
	o := &huma.Operation{Method: rt.method, Path: rt.path, OperationID: rt.id, Summary: rt.summary, Tags: []string{rt.tag}, Responses: map[string]*huma.Response{},
		Security:   []map[string][]string{{securityScheme: {string(rt.verb)}}},
		Extensions: map[string]any{verbExtension: rt.verb, classExtension: rt.class.String(), othersExtension: rt.others}}
	if rt.verb != access.VerbAdmin {
		o.Security = append(o.Security, map[string][]string{securityScheme: {string(access.VerbAdmin)}})
	}
	o.Parameters = schemas.Parameters(registry, rt.in)
	if f, ok := rt.in.FieldByName("Body"); ok {
		o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonType: {Schema: registry.Schema(f.Type, true, "")}}}
	}
	binary := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	answer := &huma.Response{Description: "done"}
	switch rt.out {
	case reflect.TypeFor[done]():
		o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{ndjsonType: {Schema: registry.Schema(reflect.TypeFor[wire.NewJob](), true, "")}}}
		answer.Content = map[string]*huma.MediaType{ndjsonType: {Schema: registry.Schema(reflect.TypeFor[Acknowledged](), true, "")}}
	case reflect.TypeFor[eventStream]():
		answer.Content = map[string]*huma.MediaType{events.StreamType: {Schema: &huma.Schema{Type: huma.TypeString}}}
	case reflect.TypeFor[bytesAnswer]():
		answer.Content = map[string]*huma.MediaType{"*/*": binary}
	default:
		answer.Content = map[string]*huma.MediaType{jsonType: {Schema: registry.Schema(rt.out, true, "")}}
	}
	if rt.raw && o.RequestBody == nil {
		o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"*/*": binary}}
	}
	o.Responses[strconv.Itoa(http.StatusOK)] = answer
	if rt.out == reflect.TypeFor[wire.Enqueued]() {
		o.Responses[strconv.Itoa(http.StatusCreated)] = answer
	}
	for status, text := range map[string]string{"401": "no token, or none that is good now", "403": "the token does not have the verb, or not for these jobs",
		"default": "a problem, by its code"} {
		o.Responses[status] = &huma.Response{Description: text, Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}}}
	}
	return o
}
