package ui

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi"
)

// throughAPI makes a client whose calls are requests to the HTTP API in this process, with the
// token. It opens no connection, so "localhost" is only the name in the header Host.
func throughAPI(api http.Handler, bearer string) *sojourn.Client {
	c, err := httpapi.Dial("http://localhost", httpapi.Token(bearer), httpapi.Transport(inProcess{api}))
	if err != nil {
		panic("ui: " + err.Error()) // it is about the URL, which is a constant
	}
	return c.As(webName)
}

// inProcess is an http.RoundTripper that calls a handler. Safe for concurrent use.
type inProcess struct{ api http.Handler }

// RoundTrip answers a request. The body of the answer is in memory.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.Host, in.RequestURI = r.URL.Host, r.URL.RequestURI()
	in.RemoteAddr, _ = r.Context().Value(addressKey{}).(string)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &answer{head: http.Header{}, status: http.StatusOK}
	t.api.ServeHTTP(w, in)
	_ = in.Body.Close()
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.head,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}, nil
}

// answer is an http.ResponseWriter that keeps the answer.
type answer struct {
	head   http.Header
	status int
	begun  bool
	body   bytes.Buffer
}

// Header gives the headers.
func (a *answer) Header() http.Header { return a.head }

// WriteHeader sets the status, once.
func (a *answer) WriteHeader(status int) {
	if !a.begun {
		a.begun, a.status = true, status
	}
}

// Write adds to the body.
func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.body.Write(b)
}

// addressKey is the key of the address of the browser, which the API records.
type addressKey struct{}

func withAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}
