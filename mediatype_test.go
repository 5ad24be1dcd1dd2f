package sojourn

import (
	"strings"
	"testing"
)

func TestContentType(t *testing.T) {
	for _, good := range []string{"", "application/json", "text/plain; charset=utf-8", "TEXT/x;a=b;c=d", `multipart/form-data; boundary="a b;\"c"`, "a/b ; c=d", "a/b;",
		"application/vnd.api+json", "a/b; c=\"\"", "a/b; x=y ; z=w"} {
		if err := ValidContentType("content_type", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"json", "a/", "/b", "a b/c", "a/b/c", "a/b;c", "a/b;c=", "a/b; =d", "a/b;c=d e", `a/b;c="d`, `a/b;c="d" e`, "a/b\r\nX: y", "a/b; c=\"\n\"", "a/b\x00",
		"ä/b", "a/b; c=\u202e", "text/html,text/plain", strings.Repeat("a", 255) + "/b", `a/b;c="\`} {
		if err := ValidContentType("content_type", bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestHeaderTokens: what becomes the value or the name of a header must be able to stand there.
func TestHeaderTokens(t *testing.T) {
	job := NewJob("k", nil)
	job.Queue = DefaultQueue
	for name, ok := range map[string]bool{"traceparent": true, "x-tenant.id": true, "": false, "a b": false, "a:b": false, "a\nb": false, "ä": false, "a\u202eb": false, "a/b": false} {
		j := *job
		j.Meta = map[string]string{name: "any\nvalue"}
		if err := j.Validate(DefaultMaxBytes); (err == nil) != ok || err != nil && ErrorCode(err) != CodeInvalid {
			t.Errorf("a name of meta %q: %v", name, err)
		}
	}
	for what, err := range map[string]error{
		"job":      (&Job{Kind: "k", Queue: "q", ContentType: "no type"}).Validate(DefaultMaxBytes),
		"response": (&Response{Kind: "k", Key: "a", ContentType: "no type"}).Validate(DefaultMaxBytes),
	} {
		if ErrorCode(err) != CodeInvalid {
			t.Errorf("the content type of a %s: %v", what, err)
		}
	}
}
