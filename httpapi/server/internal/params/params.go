// Package params reads the parameters of requests: from the path and from the query.
package params

import (
	"encoding"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

// Bind fills the fields of a struct: those with the tag path from the path, those with the tag
// query from the query. Unknown parameters are refused, because a misspelt one would be dropped
// silently.
func Bind(v reflect.Value, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return sojourn.Invalid("query", "is not well-formed")
	}
	for name := range query {
		if !takes(v.Type(), name) {
			return wire.Refusal(wire.CodeUnknownField, "this path has no parameter %.64q", name)
		}
	}
	return fill(v, r, query)
}

// takes reports whether a request has a query parameter.
func takes(t reflect.Type, name string) bool {
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("query") == name {
			return true
		}
	}
	return false
}

func fill(v reflect.Value, r *http.Request, query url.Values) error {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if p := f.Tag.Get("path"); p != "" {
			err := setOne(v.FieldByIndex(f.Index), p, r.PathValue(p))
			if err == nil && f.Type.Kind() != reflect.String && !slices.Contains(strings.Split(r.URL.EscapedPath(), "/"), r.PathValue(p)) {
				err = sojourn.Invalid(p, "a number is written without percent encoding")
			}
			if err != nil {
				return sojourn.NotFound("there is nothing at this path: %s", err.(*sojourn.Error).Message)
			}
			continue
		}
		name := f.Tag.Get("query")
		texts := query[name]
		if name == "" || len(texts) == 0 {
			continue
		}
		if err := set(v.FieldByIndex(f.Index), name, texts); err != nil {
			return err
		}
	}
	return nil
}

// set reads the texts of a parameter. Lists are given by repeating it.
func set(v reflect.Value, name string, texts []string) error {
	if v.Kind() == reflect.Slice {
		for _, t := range texts {
			item := reflect.New(v.Type().Elem()).Elem()
			if err := setOne(item, name, t); err != nil {
				return err
			}
			v.Set(reflect.Append(v, item))
		}
		return nil
	}
	if len(texts) > 1 {
		return sojourn.Invalid(name, "stands %d times in the query", len(texts))
	}
	return setOne(v, name, texts[0])
}

func setOne(v reflect.Value, name, text string) error {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		d, err := jsonform.ParseDuration(text)
		*p = d
		return Wrap(name, err)
	case *time.Time:
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return sojourn.Invalid(name, "%.64q is not a time with its zone, such as 2026-01-31T18:00:00Z", text)
		}
		*p = t
		return nil
	case encoding.TextUnmarshaler:
		return Wrap(name, p.UnmarshalText([]byte(text)))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return sojourn.Invalid(name, "%.64q is neither true nor false", text)
		}
		v.SetBool(b)
	default:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil || strconv.FormatInt(n, 10) != text { // 01 and +1 too: one thing has one name
			return sojourn.Invalid(name, "%.64q is not a whole number in its range", text)
		}
		v.SetInt(n)
	}
	return nil
}

// Wrap names the parameter in an error about it.
func Wrap(name string, err error) error {
	if e, ok := errors.AsType[*sojourn.Error](err); ok {
		named := *e
		named.Field = name
		return &named
	}
	return err
}
