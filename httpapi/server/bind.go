package server

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/admission"
	"github.com/sojourn-queue/sojourn/httpapi/server/internal/params"
	"github.com/sojourn-queue/sojourn/internal/connlimit"
)

const jsonType = "application/json"

// bind fills a request: its parameters from the path and the query, and a field named Body from the
// body.
func (c *call) bind(in any) error {
	v := reflect.ValueOf(in).Elem()
	if err := params.Bind(v, c.r); err != nil {
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
