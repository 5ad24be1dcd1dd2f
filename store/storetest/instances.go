package storetest

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Instances checks a store of which several instances fit into one database, each with a table
// prefix of its own. database makes a new, empty database and returns a function that opens the
// instance with a prefix in it; "" stands for the default prefix. The suite closes the stores.
func Instances(t *testing.T, database func(t *testing.T) func(t *testing.T, prefix string, o Options) driver.Store) {
	for _, c := range instanceTrials {
		for name, prefixes := range map[string][2]string{"default": {"", "mail_"}, "nested": {"sj_", "sj_live_"}, "short": {"a", "sj_"}} {
			t.Run(c.Name+", "+name, func(t *testing.T) {
				open := database(t)
				with := func(prefix string) kit.Opener {
					return opening(func(t *testing.T, o Options) driver.Store { return open(t, prefix, o) })
				}
				beside := kit.NewScene(t, with(prefixes[1]))
				c := c
				run := c.Run
				c.Run = func(s *kit.Scene) {
					beside.Clock = s.Clock
					beside.Open(kit.Options{})
					s.Beside = beside
					run(s)
					beside.Audit()
				}
				c.Play(t, with(prefixes[0]))
			})
		}
	}
}

var instanceTrials = []kit.Trial{
	{Name: "jobs of two instances", Law: "Neither instance sees, claims, ends, counts or sweeps a job of the other one; keys and ids are its own.",
		Covers: "spec:A2", Run: instanceJobs},
	{Name: "settings of two instances", Law: "A queue's settings concern one instance.", Covers: "spec:A2", Run: instanceSettings},
	{Name: "responses and workers of two instances", Law: "A response finds a job of its own instance, or lies in its inbox; workers are listed where they claim.",
		Covers: "spec:A2", Run: instanceResponses},
	{Name: "tokens and audit of two instances", Law: "Tokens, capabilities and the audit log belong to one instance.", Covers: "spec:A2 spec:H7", Run: instanceAccess},
}

// each runs a check on both instances.
func each(s *kit.Scene, check func(s *kit.Scene)) {
	s.Helper()
	check(s)
	check(s.Beside)
}

func instanceJobs(s *kit.Scene) {
	mine := s.Enqueue(sojourn.Key("order"), sojourn.Queue("mine"))
	theirs := s.Beside.Enqueue(sojourn.Key("order"), sojourn.Queue("theirs"))
	kit.Same(s, "id of the first job, which each instance counts for itself", theirs, mine)
	each(s, func(s *kit.Scene) {
		all, err := s.Store.Find(s.Ctx, sojourn.Filter{Limit: sojourn.MaxFind})
		s.Must(err, "Find")
		kit.Same(s, "jobs", len(all), 1)
	})
	for what, queue := range map[*kit.Scene]string{s: "mine", s.Beside: "theirs"} {
		queues, err := what.Store.Queues(s.Ctx)
		s.Must(err, "Queues")
		kit.Same(s, "queues", len(queues), 1)
		kit.Same(s, "queue", queues[0].Name, queue)
	}
	kit.Same(s, "jobs claimed from the other instance's queue", len(s.ClaimMany(kit.From("theirs"))), 0)
	one, other := s.Claim(kit.From("mine")), s.Beside.Claim(kit.From("theirs"))
	kit.Same(s, "lease, which looks the same in both", kit.Text(other.Lease), kit.Text(one.Lease))
	if one.Job.IdempotencyKey() == other.Job.IdempotencyKey() {
		s.Fatalf("two instances give their jobs the idempotency key %s", one.Job.IdempotencyKey())
	}
	done, err := s.Store.Finish(s.Ctx, []sojourn.Outcome{{Lease: one.Lease, Type: sojourn.OutcomeCompleted}})
	s.Must(err, "Finish")
	kit.Same(s, "end", done[0].Status, driver.FinishApplied)
	s.State(mine, sojourn.Completed)
	s.Beside.State(theirs, sojourn.Running)
	s.Advance(kit.LeaseTime + time.Second)
	kit.Same(s, "leases that the sweep of the wrong instance ends", s.Sweep(), driver.Swept{})
	s.Beside.State(theirs, sojourn.Running)
	kit.Same(s, "leases that the sweep of the right instance ends", s.Beside.Sweep().Lost, 1)
}

func instanceSettings(s *kit.Scene) {
	s.SetQueue(kit.Queue, sojourn.QueueSettings{Paused: true, Limit: 3})
	id := s.Beside.Enqueue()
	queues, err := s.Beside.Store.Queues(s.Ctx)
	s.Must(err, "Queues")
	kit.Same(s, "queues", len(queues), 1)
	kit.Same(s, "settings of the queue of that name", kit.Text(queues[0].Settings), kit.Text(sojourn.QueueSettings{}))
	kit.Same(s, "job that starts beside a paused queue of the same name", s.Beside.Claim().Job.ID, id)
	queues, err = s.Store.Queues(s.Ctx)
	s.Must(err, "Queues")
	kit.Same(s, "jobs of the paused queue", queues[0].InFlight, int64(0))
}

func instanceResponses(s *kit.Scene) {
	s.Enqueue(sojourn.Key("order"))
	r := sojourn.Response{Source: "bank", MessageID: "m1", Kind: kit.Kind, Key: "order", Body: []byte(`{}`)}
	respond := func(s *kit.Scene) sojourn.Responded {
		answers, err := s.Store.Respond(s.Ctx, []sojourn.Response{r})
		s.Must(err, "Respond")
		return answers[0]
	}
	kit.Same(s, "job of the response where nobody has the key", respond(s.Beside).Job, sojourn.ID(0))
	answer := respond(s)
	kit.Same(s, "outcome of the same message in the other instance", answer.Outcome, sojourn.Early)
	if answer.Job == 0 {
		s.Fatalf("the response has found no job in its own instance")
	}
	each(s, func(s *kit.Scene) {
		kit.Same(s, "responses", len(s.Inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind})), 1)
	})
	s.Claim()
	for what, n := range map[*kit.Scene]int{s: 1, s.Beside: 0} {
		kit.Same(s, "workers", len(what.Workers("", 0)), n)
	}
}

func instanceAccess(s *kit.Scene) {
	a, ok := s.Store.(access.Keeper)
	b, also := s.Beside.Store.(access.Keeper)
	if !ok || !also {
		s.Skip("this store keeps no tokens")
	}
	hash := sha256.Sum256([]byte("secret"))
	s.Must(a.SetAccessToken(s.Ctx, access.Token{ID: "a1", Name: "shop", Hash: hash[:], ExpiresAt: s.Now().Add(time.Hour), Grants: []access.Grant{kit.Everything}}), "SetAccessToken")
	tokens, err := b.AccessTokens(s.Ctx)
	s.Must(err, "AccessTokens")
	kit.Same(s, "tokens of the other instance", len(tokens), 0)
	s.Must(s.Store.(access.AuditStore).Audit(s.Ctx, access.AuditEntry{Who: "a1", Action: "one", Target: "/v1", Detail: "{}"}), "Audit")
	entries, err := s.Beside.Store.(access.AuditStore).AuditLog(s.Ctx, access.AuditFilter{})
	s.Must(err, "AuditLog")
	kit.Same(s, "audit entries of the other instance", len(entries), 0)
}
