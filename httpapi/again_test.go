package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi"
)

// canned answers requests one after the other, and notes when they came.
type canned struct {
	answers []*http.Response
	at      []time.Time
}

func (c *canned) RoundTrip(*http.Request) (*http.Response, error) {
	c.at = append(c.at, time.Now())
	if len(c.answers) == 0 {
		return nil, errors.New("one request too many")
	}
	next := c.answers[0]
	c.answers = c.answers[1:]
	return next, nil
}

func answer(status int, kind, retryAfter, body string) *http.Response {
	h := http.Header{"Content-Type": {kind}}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// TestWhatIsSentAgain: the pauses before a request is sent again, and which answers let it be sent
// again.
func TestWhatIsSentAgain(t *testing.T) {
	const (
		html    = "<html>an error page of a proxy</html>"
		limited = `{"title":"x","status":429,"detail":"too many","code":"rate_limited","retryable":true}`
		good    = `{"first":7}`
		problem = "application/problem+json"
	)
	page := func(status int) *http.Response { return answer(status, "text/html", "", html) }
	fine := func() *http.Response { return answer(200, "application/json", "", good) }
	for name, c := range map[string]struct {
		answers []*http.Response
		pauses  []time.Duration
		code    string
	}{
		"what the server asks for, each time": {[]*http.Response{answer(429, problem, "2", limited), answer(429, problem, "2", limited), fine()},
			[]time.Duration{2 * time.Second, 2 * time.Second}, ""},
		"more than a call may wait": {[]*http.Response{answer(429, problem, "11", limited)}, nil, "rate_limited"},
		"no number":                 {[]*http.Response{answer(429, problem, "\xb2", limited), fine()}, []time.Duration{50 * time.Millisecond}, ""},
		"pages of a proxy":          {[]*http.Response{page(502), page(404), fine()}, []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}, ""},
		"no field":                  {[]*http.Response{answer(200, "application/json", "", "{}"), fine()}, []time.Duration{50 * time.Millisecond}, ""},
		"only pages":                {[]*http.Response{page(503), page(307), page(403)}, []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}, sojourn.CodeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				line := &canned{answers: c.answers}
				client, err := httpapi.Dial("http://127.0.0.1", httpapi.Transport(line))
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if _, err := client.Store().IDs(t.Context(), 1); sojourn.ErrorCode(err) != c.code {
					t.Errorf("%v, want %q", err, c.code)
				}
				if len(line.at) != len(c.pauses)+1 {
					t.Fatalf("%d requests, want %d", len(line.at), len(c.pauses)+1)
				}
				for i, want := range c.pauses {
					if got := line.at[i+1].Sub(line.at[i]); got != want {
						t.Errorf("pause %d is %v, want %v", i+1, got, want)
					}
				}
			})
		})
	}
}

// TestAnswerWithoutItems: an answer with too few items is an error, not something to index into.
func TestAnswerWithoutItems(t *testing.T) {
	ctx := context.Background()
	for _, body := range []string{`{}`, `null`, `{"outcomes":[],"errors":[],"lost":null,"jobs":null,"responses":[]}`, `{"outcomes":[{},{}],"errors":[null,null],"lost":[{}],"jobs":[{}],"responses":[{},{}]}`} {
		line := &canned{}
		client, err := httpapi.Dial("http://127.0.0.1", httpapi.Transport(line))
		if err != nil {
			t.Fatal(err)
		}
		s := driver.Of(client)
		lease := sojourn.Lease{ID: 1, Epoch: 1, Worker: "w"}
		for name, call := range map[string]func() error{
			"finish": func() error { _, err := s.Finish(ctx, []sojourn.Outcome{{Lease: lease}}); return err },
			"save":   func() error { _, err := s.Save(ctx, []driver.Saved{{Lease: lease}}); return err },
			"extend": func() error { _, err := s.Extend(ctx, []sojourn.Lease{lease}); return err },
			"claim":  func() error { _, err := s.Claim(ctx, driver.ClaimRequest{Worker: "w", Number: 1}); return err },
			"respond": func() error {
				_, err := s.Respond(ctx, []sojourn.Response{{Job: 1, MessageID: "m"}})
				return err
			},
		} {
			line.answers = nil
			for range 3 {
				line.answers = append(line.answers, answer(200, "application/json", "", body))
			}
			if err := call(); sojourn.ErrorCode(err) != sojourn.CodeUnknown || len(line.answers) != 0 {
				t.Errorf("%s answered with %s: %v, %d tries left", name, body, err, len(line.answers))
			}
		}
		_ = client.Close()
	}
}
