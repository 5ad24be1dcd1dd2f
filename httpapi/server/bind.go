package server

import (
	"compress/gzip"
	"encoding"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
)

const jsonType = "application/json"

// bind fills a request: fields with the tag path from the path, fields with the tag query from the query, and a field named Body from the body.
// What nobody asks for is refused, because a misspelt parameter would be dropped silently.
func (c *call) bind(in any) error {
	v := reflect.ValueOf(in).Elem()
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return sojourn.Invalid("query", "is not well-formed")
	}
	for name := range query {
		if !takes(v.Type(), name) {
			return wire.Refusal(wire.CodeUnknownField, "this path has no parameter %.64q", name)
		}
	}
	if err := c.fill(v, query); err != nil {
		return err
	}
	body := v.FieldByName("Body")
	if !body.IsValid() {
		return nil
	}
	if t, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); t != jsonType {
		return wire.Refusal(wire.CodeMediaType, "send the body as %s", jsonType)
	}
	b, err := c.body()
	if err != nil {
		return err
	}
	return c.codec.ReadStrict(b, body.Addr().Interface())
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

func (c *call) fill(v reflect.Value, query url.Values) error {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if p := f.Tag.Get("path"); p != "" {
			if err := setOne(v.FieldByIndex(f.Index), p, c.r.PathValue(p)); err != nil {
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
		d, err := wire.ParseDuration(text)
		*p = d
		return wrap(name, err)
	case *time.Time:
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return sojourn.Invalid(name, "%.64q is not a time with its zone, such as 2026-01-31T18:00:00Z", text)
		}
		*p = t
		return nil
	case encoding.TextUnmarshaler:
		return wrap(name, p.UnmarshalText([]byte(text)))
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
		if err != nil {
			return sojourn.Invalid(name, "%.64q is not a whole number in its range", text)
		}
		v.SetInt(n)
	}
	return nil
}

// wrap names the parameter in an error about it.
func wrap(name string, err error) error {
	if e, ok := errors.AsType[*sojourn.Error](err); ok {
		named := *e
		named.Field = name
		return &named
	}
	return err
}

// body reads the whole body, at most c.most bytes of it after decompression.
func (c *call) body() ([]byte, error) {
	in, err := c.reader()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(in, c.most+1))
	if int64(len(b)) > c.most {
		return nil, c.tooLarge()
	}
	if err != nil {
		return nil, c.broken(err)
	}
	c.slot.read = time.Now()
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // from here on a read only notices that the caller has gone
	return b, nil
}

// reader gives the body without its compression.
func (c *call) reader() (io.Reader, error) {
	if c.r.ContentLength > c.most {
		return nil, c.tooLarge()
	}
	in := http.MaxBytesReader(c.w, c.r.Body, c.most)
	switch c.r.Header.Get("Content-Encoding") {
	case "", "identity":
		return in, nil
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, c.broken(err)
		}
		return z, nil
	}
	return nil, wire.Refusal(wire.CodeMediaType, "Content-Encoding may be gzip or nothing")
}

func (c *call) tooLarge() error {
	return wire.Refusal(wire.CodeBodyTooLarge, "the body exceeds the limit of %d bytes; send it in several requests, or raise --max-body", c.most)
}

func (c *call) broken(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return c.tooLarge()
	}
	return wire.Refusal(wire.CodeMalformed, "the body ended too early, came too slowly, or is not what its headers say")
}
