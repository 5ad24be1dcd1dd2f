package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
)

// TestFinishTrusts: the end of a step does not read the row that this process's claim has written
// (docs/internals/engine.md#row-cache): sj_job is read once in the life of each job, at the claim.
func TestFinishTrusts(t *testing.T) {
	const lives = 50
	c, schema := openNamed(t)
	for range lives {
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
			t.Fatal(err)
		}
		if f := finishOne(t, driver.Of(c), claimOne(t, driver.Of(c))); f.Status != driver.FinishApplied {
			t.Fatal(f)
		}
	}
	c.Close()
	until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
	var entries int
	one(t, `select (select coalesce(sum(idx_tup_fetch), 0) from pg_stat_user_indexes where schemaname = $1 and relname = 'sj_job')
		+ (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = $1 and relname = 'sj_job')`, schema, &entries)
	if entries < lives || entries > lives+lives/2 {
		t.Errorf("%d rows of sj_job read in %d lives", entries, lives)
	}
}

// TestFinishTrustsNothingThatHasChanged: the end of a step sees every change that another process
// has made to the job since its claim.
func TestFinishTrustsNothingThatHasChanged(t *testing.T) {
	var a, b driver.Store
	for name, change := range map[string]func(t *testing.T, c driver.Claimed){
		"nothing": func(*testing.T, driver.Claimed) {},
		"an answer": func(t *testing.T, c driver.Claimed) {
			answers, err := b.Respond(t.Context(), []sojourn.Response{{Job: c.Job.ID, MessageID: "m"}})
			if err != nil || answers[0].Outcome != sojourn.Early {
				t.Fatal(answers, err)
			}
			t.Cleanup(func() {
				in, err := a.Inbox(context.Background(), sojourn.InboxFilter{Job: c.Job.ID})
				if err != nil || len(in) != 1 || in[0].Outcome != sojourn.Late {
					t.Error("the answer is left over as", in, err)
				}
			})
		},
		"an extension": func(t *testing.T, c driver.Claimed) {
			if es, err := b.Extend(t.Context(), []sojourn.Lease{c.Lease}); err != nil || es[0].Err != nil {
				t.Fatal(es, err)
			}
		},
		"a key and a checkpoint": func(t *testing.T, c driver.Claimed) {
			if errs, err := b.Save(t.Context(), []driver.Saved{{Lease: c.Lease, Key: "late", Checkpoint: []byte("{}")}}); err != nil || errs[0].Err != nil {
				t.Fatal(errs, err)
			}
			t.Cleanup(func() {
				if done, err := a.Enqueue(context.Background(), newOne(t, a, sojourn.Key("late")), false); err != nil || done[0].Duplicate {
					t.Error("the key is not free:", done, err)
				}
			})
		},
		"a limit": func(t *testing.T, c driver.Claimed) {
			if err := sojourn.NewClient(b).Queues().Set(t.Context(), "default", sojourn.QueueSettings{Limit: 1}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { sojourn.NewClient(b).Queues().Set(context.Background(), "default", sojourn.QueueSettings{}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema(t)
			a, b = driver.Of(open(t, Schema(schema), AutoMigrate())), driver.Of(open(t, Schema(schema)))
			t.Cleanup(func() { a.Close(); b.Close() })
			if _, err := a.Enqueue(t.Context(), newOne(t, a), false); err != nil {
				t.Fatal(err)
			}
			c := claimOne(t, a)
			change(t, c)
			if f := finishOne(t, a, c); f.Status != driver.FinishApplied || f.State != sojourn.Completed {
				t.Error("the end of the step:", f)
			}
			queues, err := a.Queues(t.Context())
			if err != nil || queues[0].InFlight != 0 || queues[0].Counts[sojourn.Completed] != 1 {
				t.Errorf("the queue: %+v, %v", queues, err)
			}
			if found, err := a.(driver.Checker).Check(t.Context()); err != nil || len(found) > 0 {
				t.Error(found, err)
			}
		})
	}
}

// TestFinishTrustsNoEndedLease: a lease that another process has ended is lost, even if the row
// cache of this process still contains it.
func TestFinishTrustsNoEndedLease(t *testing.T) {
	schema := newSchema(t)
	a, b := driver.Of(open(t, Schema(schema), AutoMigrate())), driver.Of(open(t, Schema(schema)))
	t.Cleanup(func() { a.Close(); b.Close() })
	if _, err := a.Enqueue(t.Context(), newOne(t, a), false); err != nil {
		t.Fatal(err)
	}
	c := claimOne(t, a)
	if e, err := b.Edit(t.Context(), sojourn.Filter{IDs: []sojourn.ID{c.Job.ID}}, sojourn.Edit{Action: sojourn.EditCancel}); err != nil || !e.Items[0].Changed {
		t.Fatal(e, err)
	}
	if f := finishOne(t, a, c); f.Status != driver.FinishLost || f.State != sojourn.Cancelled {
		t.Error("the end of a step that was cancelled:", f)
	}
}

func newOne(t *testing.T, s driver.Store, options ...sojourn.Option) []sojourn.Job {
	t.Helper()
	id, err := s.IDs(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	j := sojourn.NewJob("k", nil, options...)
	j.ID = id
	return []sojourn.Job{*j}
}

func claimOne(t *testing.T, s driver.Store) driver.Claimed {
	t.Helper()
	jobs, err := s.Claim(t.Context(), driver.ClaimRequest{Worker: "w", Queues: []string{"default"}, Kinds: []string{"k"}, Max: 1, Capacity: 1, Lease: time.Minute})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	return jobs[0]
}

func finishOne(t *testing.T, s driver.Store, c driver.Claimed) driver.Finished {
	t.Helper()
	done, err := s.Finish(t.Context(), []sojourn.Outcome{{Lease: c.Lease, Type: sojourn.OutcomeCompleted}})
	if err != nil {
		t.Fatal(err)
	}
	return done[0]
}

// TestClaimsLeaveIndexesAlone: claims rewrite the row of their worker without its index entries,
// which would pile up until the next vacuum.
func TestClaimsLeaveIndexesAlone(t *testing.T) {
	const claims = 20
	c, schema := openNamed(t)
	for n := range claims {
		if _, err := c.Enqueue(t.Context(), sojourn.NewJob("k", nil)); err != nil {
			t.Fatal(err)
		}
		jobs, err := driver.Of(c).Claim(t.Context(), driver.ClaimRequest{Worker: "w", Number: int64(n + 1), Queues: []string{"default"}, Kinds: []string{"k"},
			Max: 1, Capacity: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
	}
	c.Close()
	until(t, "the end of its sessions", func() bool { return sessions(t, schema) == 0 })
	var heapOnly int
	one(t, `select coalesce(sum(n_tup_hot_upd), 0) from pg_stat_user_tables where schemaname = $1 and relname = 'sj_worker'`, schema, &heapOnly)
	if heapOnly < claims/2 { // the first inserts the row, and one is noted every 10 s
		t.Errorf("%d of %d claims have left the indexes alone", heapOnly, claims)
	}
}
