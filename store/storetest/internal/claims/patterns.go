package claims

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var patternTrials = []kit.Trial{
	{Name: "queues by pattern", Law: "A pattern stands for the queues that match it and no exclusion, those made later too.", Covers: "spec:O9", Run: patterns},
	{Name: "patterns in order", Law: "Entries come in their order; the queues of a pattern take turns, each with the share of the pattern.", Covers: "spec:O9 inv:W4", Run: patternsInOrder},
	{Name: "a blocked claim by pattern", Law: "A claim that waits takes the job of a queue that is made meanwhile.", Covers: "spec:O9 spec:O14", Run: patternBlocked},
	{Name: "more queues than a claim may name", Law: "With more matches than the limit of a claim all queues are served.", Covers: "spec:O9", Run: patternMany},
	{Name: "patterns of tenants", Law: "A pattern stands only for queues in which the token may work on all the kinds.", Covers: "spec:O9", Run: patternTenants},
	{Name: "patterns are checked", Law: "A malformed pattern is refused; one without a match is not.", Covers: "spec:O9", Run: patternsChecked},
}

// into enqueues a job into each queue.
func into(s *kit.Scene, queues ...string) (ids []sojourn.ID) {
	s.Helper()
	for _, q := range queues {
		ids = append(ids, s.Enqueue(sojourn.Queue(q)))
	}
	return ids
}

// from claims up to 100 jobs and lists their queues, in order.
func from(s *kit.Scene, options ...kit.ClaimOption) string {
	s.Helper()
	var queues []string
	for _, c := range s.ClaimMany(append([]kit.ClaimOption{kit.UpTo(100)}, options...)...) {
		queues = append(queues, c.Job.Queue)
	}
	return strings.Join(queues, " ")
}

func patterns(s *kit.Scene) {
	selects := kit.From("payments-*", "!payments-test", "!*-old")
	s.ClaimNone("no queue matches yet", selects)
	into(s, "other", "payments", "payments-test", "payments-eu-old")
	s.ClaimNone("no queue matches", selects)
	into(s, "payments-eu")
	kit.Same(s, "claimed", from(s, selects), "payments-eu")
	into(s, "payments-us") // made after the claim has read the names
	kit.Same(s, "claimed", from(s, selects), "payments-us")
	kit.Same(s, "claimed by name, without the excluded one", from(s, kit.From("payments-test", "payments", "!*test")), "payments")
	into(s, "payments-us")
	r := s.Request(selects, kit.UpTo(100))
	first, again := s.ClaimAs(r), s.ClaimAs(r)
	s.Order(kit.ClaimedIDs(again), kit.ClaimedIDs(first))
	kit.Same(s, "jobs", len(first), 1)
}

func patternsInOrder(s *kit.Scene) {
	into(s, "b-1", "a-1", "b-1", "x", "a-1", "b-1", "a-1")
	kit.Same(s, "claimed", from(s, kit.From("a-*", "x", "*")), "a-1 a-1 a-1 x b-1 b-1 b-1")
	const jobs, queues = 40, 4
	for range jobs {
		into(s, "t-1", "t-2", "t-3", "t-4")
	}
	firsts := map[string]int{}
	for range jobs {
		firsts[s.Claim(kit.From("t-*")).Job.Queue]++
	}
	if len(firsts) != queues {
		s.Fatalf("claims of one job came from %v, want all %d queues", firsts, queues)
	}
	share := func(r *driver.ClaimRequest) { r.Share = map[string]int{"t-*": 2, "u": 1} }
	into(s, "u", "u")
	counts := map[string]int{}
	for _, c := range s.ClaimMany(kit.From("t-*", "u"), kit.UpTo(18), share) {
		counts[c.Job.Queue]++
	}
	kit.Same(s, "jobs by share", fmt.Sprint(counts), "map[t-1:4 t-2:4 t-3:4 t-4:4 u:2]")
}

func patternBlocked(s *kit.Scene) {
	into(s, "payments-a")
	s.Finish(kit.Completed(s.Claim(kit.From("payments-*"))), sojourn.Completed)
	for i, do := range []func(queue string){
		func(queue string) { into(s, queue) },
		func(queue string) {
			s.Enqueue(sojourn.Queue(queue), sojourn.Delay(time.Minute))
			s.Advance(time.Minute)
		},
	} {
		queue := fmt.Sprintf("payments-new%d", i)
		done := s.Block(s.Ctx, kit.By("w2"), kit.From("payments-*", "!*-test"))
		into(s, "other", "payments-test")
		do(queue)
		c := s.Answered(done, "a job of a new queue")
		kit.Same(s, "queue", c.Job.Queue, queue)
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
	done := s.Block(s.Ctx, kit.By("w3"), kit.From("none-*"))
	into(s, "none-yet")
	kit.Same(s, "queue", s.Answered(done, "a job of the first queue that matches").Job.Queue, "none-yet")
}

func patternMany(s *kit.Scene) {
	const queues = driver.MaxClaimQueues + 44
	for i := range queues {
		into(s, fmt.Sprintf("many-%d", i))
	}
	seen := map[string]bool{}
	for range 3 {
		for _, c := range s.ClaimMany(kit.From("many-*"), kit.UpTo(queues)) {
			seen[c.Job.Queue] = true
		}
	}
	kit.Same(s, "queues that were served", len(seen), queues)
	last := fmt.Sprintf("many-%d", queues-1)
	into(s, last)
	kit.Same(s, "a lone job among many queues", s.Claim(kit.From("many-*")).Job.Queue, last)
	done := s.Block(s.Ctx, kit.By("w2"), kit.From("many-*"))
	into(s, "many-new")
	kit.Same(s, "queue", s.Answered(done, "a job of a new queue among many").Job.Queue, "many-new")
}

func patternTenants(s *kit.Scene) {
	work := []access.Verb{access.VerbWork}
	alice := s.Tenant("alice", access.Grant{Verbs: work, Queue: "a-*"}, access.Grant{Verbs: work, Queue: "half", Kind: kit.Kind})
	as := kit.By("alice/w1")
	into(s, "a-1", "b-1", "half")
	kit.Same(s, "claimed by alice", from(alice, as, kit.From("b-*", "a-*", "!a-2")), "a-1")
	kit.Same(s, "of a kind without a grant", from(alice, as, kit.From("*"), kit.Kinds(kit.Kind, "other")), "")
	kit.Same(s, "of a kind with a grant", from(alice, as, kit.From("*")), "half")
	done := alice.Block(alice.Ctx, as, kit.From("*"))
	into(s, "b-2", "a-3")
	kit.Same(s, "queue", alice.Answered(done, "a job of alice's").Job.Queue, "a-3")
	kit.Same(s, "claimed by the owner", from(s, kit.By("w9"), kit.From("b-1", "b-2")), "b-1 b-2")
}

func patternsChecked(s *kit.Scene) {
	for _, bad := range [][]string{{"no spaces*"}, {"!a"}, {""}, {"a*", "a*"}, {"a?"}} {
		_, err := s.Store.Claim(s.Ctx, s.Request(kit.From(bad...)))
		if e := s.Refused(err, sojourn.CodeInvalid, fmt.Sprintf("%q", bad)); e.Field != "queues" {
			s.Fatalf("the field of %v is %s", e, e.Field)
		}
	}
	s.ClaimNone("no queue matches", kit.From("none*"))
}
