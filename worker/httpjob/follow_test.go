package httpjob_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/worker/httpjob"
)

// A response names follow-up jobs and a next stage, if the job asks for it and the worker signs for
// the host. Anything else in its place is an error, and enqueues nothing. spec:D2
func TestFollow(t *testing.T) {
	trusted := httpjob.Options{Secrets: []httpjob.Secret{{Hosts: []string{"127.0.0.1"}, Key: "whsec_" + strings.Repeat("QUFB", 8)}}}
	many := strings.Repeat(`{"kind":"ship"},`, httpjob.MaxNext) + `{"kind":"ship"}`
	for name, one := range map[string]struct {
		args, answer string
		state        sojourn.State
		reason       string
		next         int
		stage        int32
	}{
		"next":              {`"follow": true`, `{"receipt": 7, "next": [{"kind":"ship","key":"s-1"},{"kind":"ship","delay":"1h","depends_on":[{"jobs":[1]}]}]}`, sojourn.Completed, "", 2, 0},
		"advance":           {`"follow": true`, `{"advance": {"queue":"default","delay":"1h","priority":3}}`, sojourn.Scheduled, "", 0, 1},
		"not asked for":     {`"timeout": "10s"`, `{"next": [{"kind":"ship"}]}`, sojourn.Completed, "", 0, 0},
		"nothing":           {`"follow": true`, `{"receipt": 7}`, sojourn.Completed, "", 0, 0},
		"no body":           {`"follow": true`, ``, sojourn.Completed, "", 0, 0},
		"both":              {`"follow": true`, `{"next": [{"kind":"ship"}], "advance": {"queue":"ship"}}`, sojourn.Scheduled, httpjob.ReasonFollow, 0, 0},
		"no list":           {`"follow": true`, `{"next": {"kind":"ship"}}`, sojourn.Scheduled, httpjob.ReasonFollow, 0, 0},
		"no JSON":           {`"follow": true`, `hidden words`, sojourn.Scheduled, httpjob.ReasonFollow, 0, 0},
		"a misspelt field":  {`"follow": true`, `{"next": [{"kynd":"hidden words"}]}`, sojourn.Scheduled, httpjob.ReasonFollow, 0, 0},
		"no kind":           {`"follow": true`, `{"next": [{}]}`, sojourn.Scheduled, httpjob.ReasonFollow, 0, 0},
		"an id":             {`"follow": true`, `{"next": [{"id":5,"kind":"ship"}]}`, sojourn.Scheduled, httpjob.ReasonFollow, 0, 0},
		"too many":          {`"follow": true`, `{"next": [` + many + `]}`, sojourn.Scheduled, httpjob.ReasonFollow, 0, 0},
		"follow and await":  {`"follow": true, "await": true`, `{}`, sojourn.Failed, sojourn.ReasonUndecodable, 0, 0},
		"an unknown parent": {`"follow": true`, `{"next": [{"kind":"ship","depends_on":[{"jobs":[987654]}]}]}`, sojourn.Scheduled, sojourn.CodeDependency, 0, 0},
	} {
		c := receive(t, trusted, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Webhook-Signature") == "" {
				t.Errorf("%s: the request is not signed", name)
			}
			_, _ = w.Write([]byte(one.answer))
		})
		id := c.job(`{"url": "URL", ` + one.args + `}`)
		c.Step()
		job := c.Job(id)
		next, err := c.Client.Store().Find(t.Context(), sojourn.Filter{Kind: "ship"})
		if err != nil || job.State != one.state || job.Reason != one.reason || job.Stage != one.stage || len(next) != one.next {
			t.Errorf("%s: the job is %v in stage %d, reason %q, error %q; %d jobs follow, %v", name, job.State, job.Stage, job.Reason, job.Error, len(next), err)
		}
		if strings.Contains(job.Error, "hidden words") {
			t.Errorf("%s: the error shows the body: %s", name, job.Error)
		}
	}
}

// Without a secret for the host no request is sent: whoever enqueues chooses the URL, and must not
// get the worker's right to enqueue by it.
func TestFollowNeedsTrust(t *testing.T) {
	for name, o := range map[string]httpjob.Options{"no secrets": {}, "unsigned": {Secrets: []httpjob.Secret{{Hosts: []string{"127.0.0.1"}, Key: httpjob.Unsigned}}}} {
		c := receive(t, o, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: a request was sent", name) })
		id := c.job(`{"url": "URL", "follow": true}`)
		c.Step()
		if job := c.Job(id); job.State != sojourn.Failed || job.Reason != httpjob.ReasonRefused || !strings.Contains(job.Error, "SOJOURN_HTTP_SECRETS") {
			t.Errorf("%s: the job is %v, %s: %s", name, job.State, job.Reason, job.Error)
		}
	}
}
