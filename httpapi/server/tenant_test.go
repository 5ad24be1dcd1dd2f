package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
)

// grant allows verbs on the jobs of queues and kinds.
func grant(queue, kind string, verbs ...access.Verb) access.Grant {
	return access.Grant{Verbs: verbs, Queue: queue, Kind: kind}
}

// enqueued reads the answer to one job.
func enqueued(t *testing.T, a answer) (e struct {
	ID        int64
	State     string
	Duplicate bool
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.status >= 300 {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	return e
}

// TestNobodySquatsIDs: a token that may enqueue posts jobs with the ids that the server will draw
// next and with those that another token has leased. All of them are refused, and the jobs of the
// other token are stored.
func TestNobodySquatsIDs(t *testing.T) {
	s := newSite(t, Options{})
	mallory, alice := s.token(time.Hour, grant("att*", "", access.VerbEnqueue)), s.token(time.Hour, grant("vic*", "", access.VerbEnqueue))
	drawn := enqueued(t, s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"att"}`, mallory)).ID
	a := s.send(http.MethodPost, "/v1/ids", `{"count":10}`, alice)
	var block struct{ First int64 }
	if err := json.Unmarshal([]byte(a.body), &block); err != nil {
		t.Fatal(err)
	}
	before := s.stored()
	for _, id := range []int64{drawn, drawn + 1, drawn + 2, drawn + 500, block.First, block.First + 3} {
		job := fmt.Sprintf(`{"id":%d,"kind":"k","queue":"att"}`, id)
		s.want("a job with a foreign id", s.send(http.MethodPost, "/v1/jobs", job, mallory), http.StatusUnprocessableEntity, "invalid")
		s.want("a batch with a foreign id", s.send(http.MethodPost, "/v1/jobs/batch", `{"jobs":[`+job+`]}`, mallory), http.StatusUnprocessableEntity, "invalid")
		if a := s.send(http.MethodPost, "/v1/jobs/batch", `{"partial":true,"jobs":[`+job+`]}`, mallory); !strings.Contains(a.body, `"invalid"`) {
			t.Errorf("a partial batch with a foreign id answered %s", a.body)
		}
		if a := s.send(http.MethodPost, "/v1/jobs/stream", job, mallory, "Content-Type: "+ndjsonType); !strings.Contains(a.body, `"invalid"`) {
			t.Errorf("a stream with a foreign id answered %s", a.body)
		}
	}
	if n := s.stored(); n != before {
		t.Fatalf("%d jobs were stored with foreign ids", n-before)
	}
	for i := range 3 {
		if e := enqueued(t, s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"vic"}`, alice)); e.Duplicate {
			t.Errorf("job %d without an id is a duplicate of %d", i, e.ID)
		}
	}
	own := fmt.Sprintf(`{"id":%d,"kind":"k","queue":"vic"}`, block.First)
	if e := enqueued(t, s.send(http.MethodPost, "/v1/jobs", own, alice)); e.Duplicate || e.ID != block.First {
		t.Errorf("a job with an id of the token's own answered %+v", e)
	}
	if e := enqueued(t, s.send(http.MethodPost, "/v1/jobs", own, alice)); !e.Duplicate {
		t.Errorf("its repeat answered %+v", e)
	}
	if n := s.stored(); n != before+4 {
		t.Errorf("%d jobs stored, want 4", n-before)
	}
}

// TestNobodySquatsIDsOfAnOpenServer is the same where nobody has a token.
func TestNobodySquatsIDsOfAnOpenServer(t *testing.T) {
	s := newSite(t, Options{Open: true})
	drawn := enqueued(t, s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`)).ID
	a := s.send(http.MethodPost, "/v1/jobs", fmt.Sprintf(`{"id":%d,"kind":"k"}`, drawn+1))
	s.want("a job with an id of the server", a, http.StatusUnprocessableEntity, "invalid")
	if e := enqueued(t, s.send(http.MethodPost, "/v1/jobs", `{"kind":"k"}`)); e.Duplicate {
		t.Errorf("a job without an id is a duplicate of %d", e.ID)
	}
}

// TestKeysStopAtGrants: a token neither replaces a job in a queue that it has no grant for, nor
// learns of it.
func TestKeysStopAtGrants(t *testing.T) {
	s := newSite(t, Options{})
	j := sojourn.NewJob("k", []byte(`"mine"`), sojourn.Key("order"), sojourn.Queue("vic"))
	if _, err := s.client.Enqueue(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	mallory := s.token(time.Hour, grant("att*", "", access.VerbEnqueue))
	for _, on := range []string{"existing", "error", "replace"} {
		a := s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"att","key":"order","args":"stolen","on_conflict":"`+on+`"}`, mallory)
		s.want("on_conflict "+on, a, http.StatusConflict, "conflict")
		for _, secret := range []string{"vic", `"id"`, "ready", fmt.Sprint("job ", j.ID)} {
			if strings.Contains(a.body, secret) {
				t.Errorf("on_conflict %s: the answer tells of the job: %s", on, a.body)
			}
		}
	}
	got, err := s.client.Get(t.Context(), j.ID)
	if err != nil || string(got.Args) != `"mine"` || got.Queue != "vic" {
		t.Errorf("the job has become %+v, %v", got, err)
	}
}

// TestQueuesOfATokenAreBounded: a token that creates queues without end is stopped, and others are
// not.
func TestQueuesOfATokenAreBounded(t *testing.T) {
	s := newSite(t, Options{MaxQueues: 3})
	mallory, alice := s.token(time.Hour, grant("", "", access.VerbEnqueue)), s.token(time.Hour, grant("", "", access.VerbEnqueue))
	post := func(queue, header string) answer {
		return s.send(http.MethodPost, "/v1/jobs", `{"kind":"k","queue":"`+queue+`"}`, header)
	}
	for i := range 3 {
		enqueued(t, post(fmt.Sprint("q", i), mallory))
	}
	s.want("a fourth queue", post("q3", mallory), http.StatusUnprocessableEntity, sojourn.CodeQueueLimit)
	enqueued(t, post("q0", mallory))
	enqueued(t, post("q3", alice))
	enqueued(t, post("q3", mallory))
}

// TestQueuesComeInPages: the list of queues has at most as many entries as its limit, and says
// where the next page begins.
func TestQueuesComeInPages(t *testing.T) {
	s := newSite(t, Options{})
	for i := range 7 {
		if _, err := s.client.Enqueue(t.Context(), sojourn.NewJob("k", nil, sojourn.Queue(fmt.Sprintf("q%d", i)))); err != nil {
			t.Fatal(err)
		}
	}
	reader := s.token(time.Hour, grant("", "", access.VerbRead))
	var names []string
	pages := 0
	for after := ""; ; {
		a := s.send(http.MethodGet, "/v1/queues?limit=3&after="+after, "", reader)
		var page struct {
			Queues []struct{ Name string }
			Next   string
		}
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK || len(page.Queues) > 3 {
			t.Fatalf("answered %d %s", a.status, a.body)
		}
		pages++
		for _, q := range page.Queues {
			names = append(names, q.Name)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "q0 q1 q2 q3 q4 q5 q6" || pages != 3 {
		t.Errorf("%d pages with %s", pages, got)
	}
	s.want("a page that is too long", s.send(http.MethodGet, "/v1/queues?limit=1001", "", reader), http.StatusUnprocessableEntity, "invalid")
	s.want("a page after no queue", s.send(http.MethodGet, "/v1/queues?after=nope", "", reader), http.StatusNotFound, "not_found")
}
