package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/internal/pgtest"
)

// said is the answer to a caller about a job that was not stored before.
type said struct {
	id   sojourn.ID
	code string // "" if it was acknowledged
	dup  bool
}

// oracle compares the answers to callers with the stored jobs, and lists the contradictions.
func oracle(t *testing.T, store driver.Store, all []said) (wrong []string) {
	t.Helper()
	told := map[string]int{}
	for _, s := range all {
		name := s.code
		if s.dup {
			name = "duplicate"
		}
		told[name]++
		jobs, err := store.Find(t.Context(), sojourn.Filter{IDs: []sojourn.ID{s.id}})
		if err != nil {
			t.Fatal(err)
		}
		stored := len(jobs) > 0
		switch {
		case s.dup:
			wrong = append(wrong, fmt.Sprintf("job %d: its first call was answered as a duplicate", s.id))
		case s.code == "" && !stored:
			wrong = append(wrong, fmt.Sprintf("job %d was acknowledged and is not stored", s.id))
		case s.code != "" && s.code != sojourn.CodeUnknown && stored:
			wrong = append(wrong, fmt.Sprintf("job %d: the call failed with %s, and it is stored", s.id, s.code))
		}
	}
	t.Logf("told: %v", told)
	return wrong
}

func enqueueOne(ctx context.Context, store driver.Store, id sojourn.ID) said {
	j := sojourn.NewJob("k", []byte("1"))
	j.ID = id
	e, err := store.Enqueue(ctx, []sojourn.Job{*j}, false)
	return said{id, sojourn.ErrorCode(err), err == nil && e[0].Duplicate}
}

// postOne enqueues over HTTP, as curl does.
func postOne(t *testing.T, ctx context.Context, base string, id sojourn.ID) said {
	body := fmt.Sprintf(`{"id": %d, "kind": "k", "args": 1}`, id)
	request, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/jobs", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Error(err)
		return said{id: id, code: sojourn.CodeUnknown}
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return said{id: id, code: sojourn.CodeUnknown}
	}
	defer answer.Body.Close()
	var out struct {
		Duplicate     bool
		Code, Outcome string
		Detail        string
	}
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
		t.Error(err)
	}
	if answer.StatusCode < 300 {
		return said{id, "", out.Duplicate}
	}
	if (out.Outcome == "unknown") != (out.Code == sojourn.CodeUnknown) {
		t.Errorf("code %s with outcome %q: %s", out.Code, out.Outcome, out.Detail)
	}
	return said{id, out.Code, false}
}

// storm is a store and a server over it, called by groups of callers.
type storm struct {
	store driver.Store
	http  string
	acked atomic.Int64

	mu          sync.Mutex // guards the fields below
	next, limit sojourn.ID
}

// id returns an unused id. The store leases many at a time; it may refuse while its connections are
// being killed.
func (s *storm) id(t *testing.T) sojourn.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next == s.limit && t.Context().Err() == nil {
		const size = 10_000
		if first, err := s.store.IDs(t.Context(), size); err == nil {
			s.next, s.limit = first, first+size
		}
	}
	s.next++
	return s.next - 1
}

func newStorm(t *testing.T, address string, options ...Option) *storm {
	c, err := Open(address, append(options, AutoMigrate())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	h, err := server.New(t.Context(), driver.Of(c), server.Options{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	st := &storm{store: driver.Of(c), http: s.URL}
	st.id(t) // leases, before anything goes wrong
	return st
}

// blow has n concurrent callers enqueue until more returns false. Each job has an id that was not
// used before.
func (s *storm) blow(t *testing.T, n int, more func() bool) (all []said) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for caller := range n {
		group.Go(func() {
			for more() {
				id := s.id(t)
				var one said
				if caller%2 == 0 {
					one = enqueueOne(t.Context(), s.store, id)
				} else {
					one = postOne(t, t.Context(), s.http, id)
				}
				if one.code == "" {
					s.acked.Add(1)
				}
				mu.Lock()
				all = append(all, one)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all
}

// TestCommitAnswerLost: the server has committed, and its answer is lost or replaced. No caller may
// be told that nothing has happened, nor that a first call was a duplicate. In the control arm the
// server reports a rollback although it has committed: the oracle must notice.
func TestCommitAnswerLost(t *testing.T) {
	for name, reply := range map[string][]byte{
		"closed":         nil,
		"terminated":     pgtest.ErrorResponse("FATAL", "57P01", "terminating connection due to administrator command"),
		"pooler's error": pgtest.ErrorResponse("ERROR", "08P01", "server conn crashed?"),
		"control":        pgtest.ErrorResponse("ERROR", "53100", "could not extend file: No space left on device"),
	} {
		t.Run(name, func(t *testing.T) {
			p, schema := pgtest.NewProxy(t, testURL(t)), Schema(emptySchema(t))
			s := newStorm(t, p.URL, schema)
			p.CutCommits(20, reply)
			all := s.blow(t, 16, func() bool { return p.Left() > 0 })
			direct := open(t, schema)
			defer direct.Close()
			wrong := oracle(t, driver.Of(direct), all)
			if control := name == "control"; control != (len(wrong) > 0) {
				t.Errorf("contradictions: %q", wrong)
			}
		})
	}
}

// TestTerminatedBackends kills the connections of a store under load. The oracle compares the
// answers to callers with the stored jobs.
func TestTerminatedBackends(t *testing.T) {
	schema := emptySchema(t)
	s := newStorm(t, with(t, testURL(t), "application_name", schema), Schema(schema))
	var rounds atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rounds.Add(1) < 60 {
			from := s.acked.Load()
			pgtest.Until(t, "more jobs are stored", func() bool { return s.acked.Load() >= from+10 })
			execute(t, testURL(t), fmt.Sprintf(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = '%s'`, schema))
		}
	}()
	all := s.blow(t, 16, func() bool { return rounds.Load() < 60 })
	<-done
	if wrong := oracle(t, s.store, all); len(wrong) > 0 {
		t.Errorf("contradictions: %q", wrong)
	}
}
