package server

import (
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/sqlite"
)

// TestLowSpace: new jobs are refused while the disk is nearly full.
func TestLowSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	before := newSiteAt(t, Options{Open: true}, path)
	before.want("26 a job", before.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`), 201, "")
	s := newSiteAt(t, Options{Open: true}, path, sqlite.LowSpace(math.MaxInt64))
	a := s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`)
	s.want("26 a job with little space", a, 507, "low_space")
	if !strings.Contains(a.body, `"retryable":true`) {
		t.Errorf("26: %s", a.body)
	}
	s.contains("26 an outcome", s.finish(s.claimed("k"), `"type":"completed"`), 200, `"applied"`)
}

// TestDeclaredQueues: undeclared queue names are refused and create no queue.
func TestDeclaredQueues(t *testing.T) {
	s := newSiteAt(t, Options{Open: true}, ":memory:", sqlite.DeclaredQueues())
	s.want("36 settings", s.send(http.MethodPut, "/v1/queues/payments", `{}`), 200, "")
	for i := range 10 {
		s.want("36 unknown", s.send(http.MethodPost, "/v1/jobs", fmt.Sprintf(`{"kind":"k","queue":"paymets%d"}`, i)), 404, "not_found")
	}
	s.want("36 known", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"payments"}`), 201, "")
	queues, err := s.client.Store().Queues(t.Context())
	if err != nil || len(queues) != 1 {
		t.Errorf("%+v %v", queues, err)
	}
}

// TestSameID: a job's id is what a repeated request is known by (docs/decisions/017).
func TestSameID(t *testing.T) {
	s := newSite(t, Options{Open: true})
	ids := s.send(http.MethodPost, "/v1/ids", `{"count":2}`)
	if ids.status != 200 {
		t.Fatal(ids)
	}
	s.want("28 first", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","id":1,"args":1}`), 201, "")
	s.want("28 another kind", s.send(http.MethodPost, "/v1/jobs", `{"kind":"other","id":1,"args":1}`), 409, "conflict")
	s.want("28 another key", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","id":1,"key":"x","args":1}`), 409, "conflict")
	s.contains("28 the first is as it was", s.send(http.MethodGet, "/v1/jobs/1", ""), 200, `"kind":"k"`, `"args":1`)
	var all sync.WaitGroup
	answers := make([]answer, 16)
	for i := range answers {
		all.Go(func() { answers[i] = s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","id":2}`) })
	}
	all.Wait()
	made := 0
	for _, a := range answers {
		switch {
		case a.status == 201 && !strings.Contains(a.body, `"duplicate":true`):
			made++
		case a.status != 200 || !strings.Contains(a.body, `"duplicate":true`):
			t.Errorf("29: answered %d %s", a.status, a.body)
		}
	}
	if n := s.stored(); made != 1 || n != 2 {
		t.Errorf("29: %d requests have made the job, and %d jobs are stored, want 1 and 2", made, n)
	}
}

// TestForeignClock: what a client says in durations does not depend on its clock; times are taken
// and shown as they are given, in UTC.
func TestForeignClock(t *testing.T) {
	s := newSite(t, Options{Open: true})
	year := time.Now().AddDate(1, 0, 0).Truncate(time.Second)
	said := year.In(time.FixedZone("", 2*3600)).Format(time.RFC3339)
	s.want("72 a time", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","run_at":"`+said+`"}`), 201, "")
	s.contains("72 is shown", s.send(http.MethodGet, "/v1/jobs/1", ""), 200, `"run_at":"`+year.UTC().Format(time.RFC3339)+`"`, `"state":"scheduled"`)
	began := time.Now()
	s.want("72 a duration", s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","delay":"1h"}`, "Date: Thu, 01 Jan 1970 00:00:00 GMT"), 201, "")
	j, err := s.client.Get(t.Context(), 2)
	if err != nil || j.State != sojourn.Scheduled || j.RunAt.Before(began.Add(time.Hour-time.Second)) || j.RunAt.After(time.Now().Add(time.Hour+time.Second)) {
		t.Errorf("%+v %v", j, err)
	}
}
