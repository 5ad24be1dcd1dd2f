package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// A job without a trace context gets that of the request, whichever way it is enqueued.
func TestTraceparentOfTheRequest(t *testing.T) {
	s := newSite(t, Options{Open: true})
	const of, own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-ffffffffffffffff-01"
	for _, c := range []struct{ name, path, contentType, body, header, want string }{
		{"one", "/v1/jobs", jsonType, `{"kind":"k","key":"KEY"}`, of, of},
		{"a batch", "/v1/jobs/batch", jsonType, `{"jobs":[{"kind":"k","key":"KEY"}]}`, of, of},
		{"a stream", "/v1/jobs/stream", ndjsonType, `{"kind":"k","key":"KEY"}` + "\n", of, of},
		{"bytes", "/v1/jobs/raw?kind=k&key=KEY", "text/plain", "hello", of, of},
		{"its own", "/v1/jobs", jsonType, `{"kind":"k","key":"KEY","meta":{"traceparent":"` + own + `"}}`, of, own},
		{"not one", "/v1/jobs", jsonType, `{"kind":"k","key":"KEY"}`, "00-nonsense", ""},
		{"none", "/v1/jobs", jsonType, `{"kind":"k","key":"KEY"}`, "", ""},
	} {
		key := strings.ReplaceAll(c.name, " ", "-")
		r, err := http.NewRequest(http.MethodPost, s.url+strings.ReplaceAll(c.path, "KEY", key), strings.NewReader(strings.ReplaceAll(c.body, "KEY", key)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set("Traceparent", c.header)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		j, err := s.client.GetByKey(t.Context(), key, "k")
		if err != nil || j.Meta[sojourn.MetaTraceparent] != c.want {
			t.Errorf("%s: status %d, %v; the job is %+v, want %q", c.name, response.StatusCode, err, j, c.want)
		}
	}
}
