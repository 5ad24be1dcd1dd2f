package httpjob

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-queue/sojourn"
)

// KindName is the name of the kind.
const KindName = "http"

// Kind are jobs that send one request. Its args are read strictly: an unknown field, or a value out
// of range, makes a job undecodable.
var Kind = sojourn.Kind[Args]{Name: KindName, Codec: codec{sojourn.JSON}}

// Args are the input of a job of the kind http.
type Args struct {
	URL     string            `json:"url"`               // https, without user, password and fragment
	Method  string            `json:"method,omitempty"`  // default POST
	Headers map[string]string `json:"headers,omitempty"` // besides those that each request has
	// Body is sent as it stands here, as application/json; {"$base64": "…"} stands for other bytes.
	// Default: none.
	Body    json.RawMessage `json:"body,omitempty"`
	Timeout Duration        `json:"timeout,omitzero"`   // for the whole request; default and most is the worker's, 30 s
	RetryOn []int           `json:"retry_on,omitempty"` // further statuses after which the request is repeated, 300 to 499
	Await   bool            `json:"await,omitempty"`    // the answer comes later, to the link in the header Sojourn-Respond-Url
	Within  Duration        `json:"within,omitzero"`    // of the wait; default the attempt's timeout
	// Follow lets the response name follow-up jobs or a next stage, see [Caller.Run]. The worker
	// must have a secret for the host.
	Follow bool `json:"follow,omitempty"`
}

// Duration is a time.Duration that is written with its unit, such as "90s".
type Duration time.Duration

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration from 0 to 10 years.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 || v > sojourn.MaxHorizon {
		return fmt.Errorf("%.64q is not a duration such as 90s or 6h, of at most 10 years", b)
	}
	*d = Duration(v)
	return nil
}

// codec reads args strictly.
type codec struct{ sojourn.Codec }

// Decode implements sojourn.Codec.
func (codec) Decode(b []byte, v any) error {
	args, ok := v.(*Args)
	if !ok {
		return fmt.Errorf("args of the kind http fill *httpjob.Args, not %T", v)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(args); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is more than one JSON value")
	}
	return args.validate()
}

// reserved are headers that the worker or the connection sets.
var reserved = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Proxy-Authorization",
	"Proxy-Connection", "Proxy-Authenticate", "Expect", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}

func (a *Args) validate() error {
	if a.URL == "" {
		return sojourn.Invalid("url", "is missing")
	}
	if _, err := url.Parse(a.URL); err != nil {
		return sojourn.Invalid("url", "is not a URL") // its text may hold secrets
	}
	if a.Method == "" {
		a.Method = http.MethodPost
	}
	if !token(a.Method) || slices.Contains([]string{"CONNECT", "TRACE"}, strings.ToUpper(a.Method)) {
		return sojourn.Invalid("method", "%.32q is not one for this: use POST, GET, PUT, PATCH or DELETE", a.Method)
	}
	for name, v := range a.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !token(name):
			return sojourn.Invalid("headers", "%.64q is not the name of a header", name)
		case slices.Contains(reserved, canonical) || strings.HasPrefix(canonical, "Sojourn-"):
			return sojourn.Invalid("headers", "%s is set by the worker", canonical)
		case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return sojourn.Invalid("headers", "the value of %s has control characters", canonical)
		}
	}
	for _, s := range a.RetryOn {
		if s < 300 || s > 499 {
			return sojourn.Invalid("retry_on", "%d is out of range: 300 to 499; 5xx are repeated anyway", s)
		}
	}
	if !a.Await && a.Within != 0 {
		return sojourn.Invalid("within", "is for a job with \"await\": true")
	}
	if a.Await && a.Follow {
		return sojourn.Invalid("follow", "does not go with await: only the response to the request names follow-up jobs")
	}
	_, _, err := a.body()
	return err
}

// token reports whether s is a token of RFC 9110.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// body returns the bytes to send and their content type.
func (a *Args) body() (b []byte, contentType string, err error) {
	if len(a.Body) == 0 || string(a.Body) == "null" {
		return nil, "", nil
	}
	var encoded map[string]json.RawMessage
	if json.Unmarshal(a.Body, &encoded) == nil && len(encoded) == 1 && encoded["$base64"] != nil {
		var text string
		if err := json.Unmarshal(encoded["$base64"], &text); err != nil {
			return nil, "", sojourn.Invalid("body", "$base64 is not a text")
		}
		if b, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, "", sojourn.Invalid("body", "$base64 is not base64 in the standard alphabet with padding")
		}
		return b, "application/octet-stream", nil
	}
	return a.Body, "application/json", nil
}

// Content is the body of a response: as JSON, else as text, else as base64.
type Content struct {
	Body      json.RawMessage `json:"body,omitempty"`
	Text      string          `json:"text,omitempty"`
	Base64    []byte          `json:"base64,omitempty"`
	Truncated bool            `json:"truncated,omitempty"` // there was more than MaxResponse
}

func contentOf(b []byte, truncated bool) Content {
	c := Content{Truncated: truncated}
	switch {
	case len(b) == 0:
	case !utf8.Valid(b) && !truncated:
		c.Base64 = b
	case json.Valid(b) && utf8.Valid(b):
		c.Body = b
	case utf8.Valid(bytes.TrimRightFunc(b, func(r rune) bool { return r == utf8.RuneError })): // cut inside of a character
		c.Text = string(bytes.TrimRightFunc(b, func(r rune) bool { return r == utf8.RuneError }))
	default:
		c.Base64 = b
	}
	return c
}

// Result is the result of a job of the kind http, and its checkpoint before: the response to the
// last request, and with await the answer.
type Result struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"` // several of one name are joined by a comma
	Content
	Answer *Answer `json:"answer,omitempty"`
}

// Answer is the response that was sent to the link or with the job's key.
type Answer struct {
	Key         string    `json:"key,omitempty"`
	Source      string    `json:"source,omitempty"`
	MessageID   string    `json:"message_id,omitempty"`
	ContentType string    `json:"content_type,omitempty"`
	ReceivedAt  time.Time `json:"received_at,omitzero"`
	Content
}
