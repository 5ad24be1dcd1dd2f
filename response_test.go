package sojourn

import (
	"strings"
	"testing"
)

func TestResponseValidate(t *testing.T) {
	long := strings.Repeat("x", MaxKey+1)
	for _, c := range []struct {
		name        string
		r           *Response
		code, field string
	}{
		{"nothing", nil, CodeInvalid, "response"},
		{"no address", &Response{Kind: "k"}, CodeInvalid, "response"},
		{"key and job", &Response{Kind: "k", Key: "a", Job: 1}, CodeInvalid, "response"},
		{"job and token", &Response{Job: 1, Token: "t"}, CodeInvalid, "response"},
		{"key and token", &Response{Kind: "k", Key: "a", Token: "t"}, CodeInvalid, "response"},
		{"key without kind", &Response{Key: "a"}, CodeInvalid, "kind"},
		{"key of a bad kind", &Response{Kind: "a b", Key: "a"}, CodeInvalid, "kind"},
		{"a bad key", &Response{Kind: "k", Key: "a\n"}, CodeInvalid, "key"},
		{"a long key", &Response{Kind: "k", Key: long}, CodeInvalid, "key"},
		{"job -1", &Response{Job: -1}, CodeInvalid, "job"},
		{"job 2^53", &Response{Job: 1 << 53}, CodeInvalid, "job"},
		{"inv:N3 body", &Response{Job: 1, Body: make([]byte, big+1)}, CodeTooLarge, "body"},
		{"inv:N3 content type", &Response{Job: 1, ContentType: long}, CodeTooLarge, "content_type"},
		{"a bad source", &Response{Job: 1, Source: "a\x00"}, CodeInvalid, "source"},
		{"a long message id", &Response{Job: 1, MessageID: long}, CodeInvalid, "message_id"},
	} {
		t.Run(c.name, func(t *testing.T) { refusal(t, c.r.Validate(big), c.code, c.field) })
	}
	for _, r := range []Response{
		{Kind: "k", Key: "order 42"}, {Job: 1}, {Job: 1<<53 - 1, Kind: "k"}, {Token: "whatever"},
		{Job: 1, Body: make([]byte, big), ContentType: "text/plain; charset=utf-8", Source: "kafka", MessageID: "orders/3@77", Failed: true},
	} {
		if err := r.Validate(big); err != nil {
			t.Errorf("%+.60v: %v", r, err)
		}
	}
}
