package server

import (
	"compress/gzip"
	"encoding"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
)

const jsonType = "application/json"

// bind fills a request: fields with the tag path from the path, fields with the tag query from the
// query, and a field named Body from the body. Unknown parameters are refused, because a misspelt
// one would be dropped silently.
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
	b, err := c.readBody()
	if err != nil {
		return err
	}
	if gzipped(b) {
		return unsaidEncoding()
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
			err := setOne(v.FieldByIndex(f.Index), p, c.r.PathValue(p))
			if err == nil && f.Type.Kind() != reflect.String && !slices.Contains(strings.Split(c.r.URL.EscapedPath(), "/"), c.r.PathValue(p)) {
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
		if err != nil || strconv.FormatInt(n, 10) != text { // 01 and +1 too: one thing has one name
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

// readBody reads the whole body, at most c.most bytes of it after decompression, and then takes the
// slot of the request.
func (c *call) readBody() ([]byte, error) {
	if c.r.ContentLength > c.most {
		return nil, c.tooLarge()
	}
	began := time.Now()
	c.arriving.Add(1)
	defer c.arriving.Add(-1)
	c.body = c.bodies.Body(c.w, http.MaxBytesReader(c.w, c.r.Body, c.most))
	in, announced, err := c.decoded()
	if err != nil {
		return nil, err
	}
	b, err := c.body.ReadAll(in, announced, c.most, c.class.Share())
	if err != nil {
		return nil, c.broken(err)
	}
	c.w.read = true
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // from here on a read only notices that the caller has gone
	if time.Since(began) > tokensFresh {
		if err := c.renew(); err != nil { // the token may have been revoked while the body came
			return nil, err
		}
	}
	c.raw = false
	if err := c.begin(int64(len(b))); err != nil {
		return nil, err
	}
	c.slot.BodyRead()
	return b, nil
}

// decoded gives the body without its compression, and the length that the header names, or -1.
func (c *call) decoded() (io.Reader, int64, error) {
	switch coding := contentEncoding(c.r.Header); coding {
	case "":
		return c.body, c.r.ContentLength, nil
	case "gzip":
		z, err := gzip.NewReader(c.body)
		if err != nil {
			return nil, 0, c.broken(err)
		}
		return z, -1, nil
	default:
		return nil, 0, wire.Refusal(wire.CodeEncoding, "the header Content-Encoding is %.64q: send the body as gzip, or without a Content-Encoding", coding)
	}
}

// contentEncoding returns "" for an identity-encoded body.
func contentEncoding(h http.Header) string {
	coding := strings.ToLower(strings.Join(h.Values("Content-Encoding"), ", "))
	if coding == "identity" {
		return ""
	}
	return coding
}

// gzipped reports whether bytes that should be JSON begin as gzip does.
func gzipped(b []byte) bool { return len(b) > 1 && b[0] == 0x1f && b[1] == 0x8b }

func unsaidEncoding() error {
	return wire.Refusal(wire.CodeEncoding, "the body is compressed with gzip, but the request has no header Content-Encoding: gzip")
}

func (c *call) tooLarge() error {
	return wire.Refusal(wire.CodeBodyTooLarge, "the body exceeds the limit of %d bytes; send it in several requests, or raise --max-body", c.most)
}

// broken explains an error of reading a body.
func (c *call) broken(err error) error {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large, errors.Is(err, connlimit.ErrTooLarge):
		return c.tooLarge()
	case errors.Is(err, connlimit.ErrNoRoom):
		return admission.Overloaded()
	case errors.Is(err, os.ErrDeadlineExceeded):
		e := wire.Refusal(wire.CodeBodyTimeout, "the body did not arrive in time: at least %d KiB, or its end, must come within %v", connlimit.MinPiece>>10, c.patience)
		e.Retryable = true
		return e
	}
	return wire.Refusal(wire.CodeMalformed, "the body ended too early, or is not what its headers say")
}
