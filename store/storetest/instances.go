package storetest

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// Instances checks a store of which several instances fit into one database, each with a table
// prefix of its own. database makes a new, empty database and returns a function that opens the
// instance with a prefix in it; "" stands for the default prefix. The suite closes the stores.
func Instances(t *testing.T, database func(t *testing.T) func(t *testing.T, prefix string, o Options) driver.Store) {
	for _, c := range instanceTrials {
		for name, prefixes := range map[string][2]string{"default": {"", "mail_"}, "nested": {"sj_", "sj_live_"}, "short": {"a", "sj_"}} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				open := database(t)
				with := func(prefix string) func(t *testing.T, o Options) driver.Store {
					return func(t *testing.T, o Options) driver.Store { return open(t, prefix, o) }
				}
				beside := newScene(t, with(prefixes[1]))
				c := c
				run := c.run
				c.run = func(s *scene) {
					beside.clock = s.clock
					beside.open(Options{})
					s.beside = beside
					run(s)
					beside.audit()
				}
				c.play(t, with(prefixes[0]))
			})
		}
	}
}

var instanceTrials = []trial{
	{"jobs of two instances", "Neither instance sees, claims, ends, counts or sweeps a job of the other one; keys and ids are its own.", "spec:A2", instanceJobs},
	{"settings of two instances", "A queue's settings concern one instance.", "spec:A2", instanceSettings},
	{"responses and workers of two instances", "A response finds a job of its own instance, or lies in its inbox; workers are listed where they claim.", "spec:A2", instanceResponses},
	{"tokens and audit of two instances", "Tokens, capabilities and the audit log belong to one instance.", "spec:A2 spec:H7", instanceAccess},
}

// each runs a check on both instances.
func (s *scene) each(check func(s *scene)) {
	s.Helper()
	check(s)
	check(s.beside)
}

func instanceJobs(s *scene) {
	mine := s.enqueue(sojourn.Key("order"), sojourn.Queue("mine"))
	theirs := s.beside.enqueue(sojourn.Key("order"), sojourn.Queue("theirs"))
	same(s, "id of the first job, which each instance counts for itself", theirs, mine)
	s.each(func(s *scene) {
		all, err := s.store.Find(s.ctx, sojourn.Filter{Limit: sojourn.MaxFind})
		s.must(err, "Find")
		same(s, "jobs", len(all), 1)
	})
	for what, queue := range map[*scene]string{s: "mine", s.beside: "theirs"} {
		queues, err := what.store.Queues(s.ctx)
		s.must(err, "Queues")
		same(s, "queues", len(queues), 1)
		same(s, "queue", queues[0].Name, queue)
	}
	same(s, "jobs claimed from the other instance's queue", len(s.claimMany(from("theirs"))), 0)
	one, other := s.claim(from("mine")), s.beside.claim(from("theirs"))
	same(s, "lease, which looks the same in both", text(other.Lease), text(one.Lease))
	if one.Job.IdempotencyKey() == other.Job.IdempotencyKey() {
		s.Fatalf("two instances give their jobs the idempotency key %s", one.Job.IdempotencyKey())
	}
	done, err := s.store.Finish(s.ctx, []sojourn.Outcome{{Lease: one.Lease, Type: sojourn.OutcomeCompleted}})
	s.must(err, "Finish")
	same(s, "end", done[0].Status, driver.FinishApplied)
	s.state(mine, sojourn.Completed)
	s.beside.state(theirs, sojourn.Running)
	s.advance(lease + time.Second)
	same(s, "leases that the sweep of the wrong instance ends", s.sweep(), driver.Swept{})
	s.beside.state(theirs, sojourn.Running)
	same(s, "leases that the sweep of the right instance ends", s.beside.sweep().Lost, 1)
}

func instanceSettings(s *scene) {
	s.setQueue(line, sojourn.QueueSettings{Paused: true, Limit: 3})
	id := s.beside.enqueue()
	queues, err := s.beside.store.Queues(s.ctx)
	s.must(err, "Queues")
	same(s, "queues", len(queues), 1)
	same(s, "settings of the queue of that name", text(queues[0].Settings), text(sojourn.QueueSettings{}))
	same(s, "job that starts beside a paused queue of the same name", s.beside.claim().Job.ID, id)
	queues, err = s.store.Queues(s.ctx)
	s.must(err, "Queues")
	same(s, "jobs of the paused queue", queues[0].InFlight, int64(0))
}

func instanceResponses(s *scene) {
	s.enqueue(sojourn.Key("order"))
	r := sojourn.Response{Source: "bank", MessageID: "m1", Kind: charge, Key: "order", Body: []byte(`{}`)}
	respond := func(s *scene) sojourn.Responded {
		answers, err := s.store.Respond(s.ctx, []sojourn.Response{r})
		s.must(err, "Respond")
		return answers[0]
	}
	same(s, "job of the response where nobody has the key", respond(s.beside).Job, sojourn.ID(0))
	answer := respond(s)
	same(s, "outcome of the same message in the other instance", answer.Outcome, sojourn.Early)
	if answer.Job == 0 {
		s.Fatalf("the response has found no job in its own instance")
	}
	s.each(func(s *scene) { same(s, "responses", len(s.inbox(sojourn.InboxFilter{Limit: sojourn.MaxFind})), 1) })
	s.claim()
	for what, n := range map[*scene]int{s: 1, s.beside: 0} {
		same(s, "workers", len(what.workers("", 0)), n)
	}
}

func instanceAccess(s *scene) {
	a, ok := s.store.(access.Keeper)
	b, also := s.beside.store.(access.Keeper)
	if !ok || !also {
		s.Skip("this store keeps no tokens")
	}
	hash := sha256.Sum256([]byte("secret"))
	s.must(a.SetAccessToken(s.ctx, access.Token{ID: "a1", Name: "shop", Hash: hash[:], ExpiresAt: s.now().Add(time.Hour), Grants: []access.Grant{everything}}), "SetAccessToken")
	tokens, err := b.AccessTokens(s.ctx)
	s.must(err, "AccessTokens")
	same(s, "tokens of the other instance", len(tokens), 0)
	s.must(s.store.(access.AuditStore).Audit(s.ctx, access.AuditEntry{Who: "a1", Action: "one", Target: "/v1", Detail: "{}"}), "Audit")
	entries, err := s.beside.store.(access.AuditStore).AuditLog(s.ctx, access.AuditFilter{})
	s.must(err, "AuditLog")
	same(s, "audit entries of the other instance", len(entries), 0)
}
