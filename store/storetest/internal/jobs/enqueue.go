package jobs

import (
	"math"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

var enqueueTrials = []kit.Trial{
	{Name: "enqueue a job that is due", Law: "A job without a run_at is ready at once, in generation 1, with nothing counted.",
		Covers: "tr:N3 spec:S1 spec:J9 spec:J15 spec:P12 inv:A1 inv:S5", Run: enqueueReady},
	{Name: "enqueue a job for later", Law: "A job with a run_at or a delay is scheduled for that time of the store's clock.",
		Covers: "tr:N2 spec:J10 spec:P2 spec:P13 inv:S4 inv:K2", Run: enqueueScheduled},
	{Name: "a run_at in the past means now", Law: "A run_at that has passed means now, and one more than ten years ahead is refused.",
		Covers: "tr:N3 spec:J10 inv:N1", Run: enqueuePast},
	{Name: "enqueue keeps every field", Law: "What is enqueued is what is read, found and claimed.",
		Covers: "spec:J1 spec:J2 spec:J3 spec:J11 spec:J12 spec:J22 spec:J23 spec:J24 spec:P4", Run: enqueueFields},
	{Name: "enqueue fills in defaults", Law: "What neither option nor kind nor queue says is the built-in default, stored with the job.",
		Covers: "spec:J7 spec:J11 spec:J12 spec:J19 spec:J24 spec:A12 spec:A17", Run: enqueueDefaults},
	{Name: "enqueue the same id again", Law: "The same id with the same content is the same job, whatever its state, and nothing changes.",
		Covers: "tr:N4 spec:J1 inv:A3 inv:U3 rules:F1", Run: enqueueSameID},
	{Name: "rules:F6 the id of a job that has just ended", Law: "Ids are unique over live and final jobs: a repeated enqueue never runs a finished job again.",
		Covers: "tr:N4 rules:F6 inv:S2 inv:A3 spec:S5", Run: enqueueFinalID},
	{Name: "enqueue the same id after its args have changed", Law: "A repeated enqueue is that job, also when a replace or an operator has changed its args meanwhile.",
		Covers: "tr:N4 tr:N6 tr:O5 rules:F2 inv:A3", Run: enqueueChangedArgs},
	{Name: "enqueue an id with other content", Law: "A known id with other content is a conflict and changes nothing.",
		Covers: "tr:N4 spec:J1 rules:F2", Run: enqueueOtherContent},
	{Name: "enqueue a batch, all or nothing", Law: "A batch with one bad job stores none of it, and the error names the job.",
		Covers: "spec:P10 spec:A16 inv:A7 spec:B5", Run: enqueueBatch},
	{Name: "enqueue a batch in partial mode", Law: "In partial mode each job stands for itself, with its own error.",
		Covers: "spec:P10 inv:A7 inv:P4", Run: enqueuePartial},
	{Name: "enqueue refuses bad input", Law: "Bad input is refused with a code and a field before anything is written.",
		Covers: "spec:A3 spec:A16 spec:J2 spec:J7 spec:J11 spec:J12 spec:J19 spec:P2 spec:P4 inv:N1", Run: enqueueBad},
	{Name: "queues appear with their first job", Law: "A queue need not be declared: its first job makes it.", Covers: "spec:A9 spec:A10", Run: enqueueMakesQueue},
}

func enqueueReady(s *kit.Scene) {
	id := s.Enqueue()
	j := s.State(id, sojourn.Ready)
	kit.Same(s, "generation", j.Generation, 1)
	kit.Same(s, "epoch", j.Epoch, 0)
	s.Counters(id, 0, 0, 0)
	kit.Same(s, "error", j.Error+j.Reason, "")
	kit.Same(s, "resumed", j.Resumed, false)
	s.At("created_at", j.CreatedAt, s.Now())
	s.At("run_at", j.RunAt, s.Now())
	s.At("orig_run_at", j.OrigRunAt, s.Now())
	s.Happened(id)
	s.InFlight(0, "after the enqueue")
}

func enqueueScheduled(s *kit.Scene) {
	s.Advance(time.Minute) // the delay counts from now, not from when the job was made
	when := s.Now().Add(time.Hour).Add(123456 * time.Microsecond)
	a := s.Enqueue(sojourn.RunAt(when))
	b := s.Enqueue(sojourn.Delay(90 * time.Second))
	ja, jb := s.State(a, sojourn.Scheduled), s.State(b, sojourn.Scheduled)
	s.At("run_at", ja.RunAt, when)
	s.At("orig_run_at", ja.OrigRunAt, when)
	s.At("run_at of a delay", jb.RunAt, s.Now().Add(90*time.Second))
	s.ClaimNone("both are scheduled")
	s.Advance(90*time.Second - time.Microsecond)
	s.ClaimNone("a microsecond is left")
	s.Advance(time.Microsecond)
	kit.Same(s, "the due job", s.Claim().Job.ID, b)
	s.State(a, sojourn.Scheduled)
}

func enqueuePast(s *kit.Scene) {
	id := s.Enqueue(sojourn.RunAt(s.Now().Add(-time.Hour)))
	s.At("run_at", s.State(id, sojourn.Ready).RunAt, s.Now())
	far := s.Enqueue(sojourn.RunAt(s.Now().Add(sojourn.MaxHorizon)))
	s.State(far, sojourn.Scheduled)
	beyond := s.Job(sojourn.RunAt(s.Now().Add(sojourn.MaxHorizon + time.Second)))
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{beyond}, false)
	s.Refused(err, sojourn.CodeInvalid, "run_at more than ten years ahead")
	s.Gone(beyond.ID)
}

func enqueueFields(s *kit.Scene) {
	p := sojourn.Policy{MaxAttempts: 7, MaxCrashes: sojourn.Unlimited, RunTimeout: time.Minute, Timeout: time.Hour, Deadline: 48 * time.Hour,
		DecideWithin: 3 * time.Minute, KeepKey: time.Second, OnLost: sojourn.Fail, OnPanic: sojourn.Fail,
		LateToInbox: new(true), NoExtend: new(true), StopAtWindowEnd: new(true),
		Windows: []sojourn.Windows{{{Start: "00:00", End: "23:59:59", Zone: "Europe/Berlin", Except: []string{"2026-12-25"}}, {Start: "12:00", End: "12:00"}}},
		Backoff: sojourn.Backoff{First: 1500 * time.Millisecond, Factor: 2.5, Limit: 7 * time.Minute, Jitter: 0.25}}
	j := s.Job(kit.OfKind("mail.send:v2/eu-1"), sojourn.Queue("mail_OUT"), sojourn.Key("Bestellung № 42 ü"), sojourn.Group("Händler/7"), kit.Args("{\"a\": [ 1.0 ] }\n"),
		sojourn.Priority(math.MinInt32), sojourn.Weight(sojourn.MaxWeight), sojourn.Tags("b", "a", "b"), sojourn.Meta("traceparent", "00-ab"),
		sojourn.Meta("tenant", "ü'\"%\x00"), kit.Policy(p))
	j.ContentType = "application/vnd.order+json"
	s.Put(j)
	claimed := s.Claim(kit.From("mail_OUT"), kit.Kinds("mail.send:v2/eu-1")).Job
	for what, got := range kit.InOrder(map[string]sojourn.Job{"the found job": s.Get(j.ID), "the claimed job": claimed}) {
		kit.Same(s, what+": kind", got.Kind, j.Kind)
		kit.Same(s, what+": queue", got.Queue, j.Queue)
		kit.Same(s, what+": key", got.Key, j.Key)
		kit.Same(s, what+": group", got.Group, j.Group)
		kit.Same(s, what+": args", string(got.Args), string(j.Args))
		kit.Same(s, what+": content type", got.ContentType, j.ContentType)
		kit.Same(s, what+": priority", got.Priority, math.MinInt32)
		kit.Same(s, what+": weight", got.Weight, sojourn.MaxWeight)
		kit.Same(s, what+": tags", len(got.Tags), 2)
		kit.Same(s, what+": meta", got.Meta["traceparent"]+got.Meta["tenant"], "00-abü'\"%\x00")
		kit.Same(s, what+": policy", kit.Text(got.Policy), kit.Text(p))
		kit.Same(s, what+": instance", got.Instance != "", true)
	}
}

func enqueueDefaults(s *kit.Scene) {
	made := *sojourn.NewJob(kit.Kind, nil)
	made.ID = s.ID()
	j := s.Get(s.Put(made).ID)
	kit.Same(s, "priority", j.Priority, sojourn.DefaultPriority)
	kit.Same(s, "weight", j.Weight, sojourn.DefaultWeight)
	kit.Same(s, "max_attempts", j.Policy.MaxAttempts, sojourn.DefaultMaxAttempts)
	kit.Same(s, "max_crashes", j.Policy.MaxCrashes, sojourn.DefaultMaxCrashes)
	kit.Same(s, "timeout", j.Policy.Timeout, sojourn.DefaultTimeout)
	kit.Same(s, "decide_within", j.Policy.DecideWithin, sojourn.DefaultDecideWithin)
	kit.Same(s, "deadline", j.Policy.Deadline, 0)
	kit.Same(s, "backoff", j.Policy.Backoff, sojourn.Backoff{First: 5 * time.Second, Factor: 4, Limit: time.Hour, Jitter: 1})
	kit.Same(s, "content type", j.ContentType, "application/json")
	encoded := kit.Text(j)
	for _, absent := range []string{"null", `""`, "0001-01-01", "[]", "{}", `"key"`, `"group"`, `"tags"`, `"meta"`, `"result"`, `"finished_at"`} {
		kit.Same(s, "absent from the JSON of a job: "+absent, strings.Contains(encoded, absent), false)
	}
	z := s.Get(s.Enqueue(sojourn.Priority(0), sojourn.Weight(0)))
	kit.Same(s, "priority 0, given", z.Priority, 0)
	kit.Same(s, "weight 0, given", z.Weight, 0)
}

// again enqueues the same job once more, and wants nothing to change.
func again(s *kit.Scene, j sojourn.Job, want sojourn.State) {
	s.Helper()
	before := s.Picture(j.ID)
	if e := s.Put(j); e.ID != j.ID || !e.Duplicate || e.State != want || e.Replaced {
		s.Fatalf("the same id again answered %+v, want a duplicate of %d, %s", e, j.ID, want)
	}
	s.Unchanged(j.ID, before, "a repeated enqueue")
}

func enqueueSameID(s *kit.Scene) {
	j := s.Job(sojourn.Key("k"), sojourn.Meta("tenant", "a"))
	s.Put(j)
	again(s, j, sojourn.Ready)
	traced := j
	traced.InheritTrace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=1")
	again(s, traced, sojourn.Ready) // a repeated request is another span
	c := s.Claim()
	s.Advance(time.Second)
	again(s, j, sojourn.Running)
	s.Finish(kit.Await(c, 0), sojourn.Awaiting)
	again(s, j, sojourn.Awaiting)
	later := s.Job(sojourn.Delay(time.Hour))
	s.Put(later)
	again(s, later, sojourn.Scheduled)
	later.OnConflict = sojourn.ReturnError // is about keys
	again(s, later, sojourn.Scheduled)
	twice := s.Job()
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{twice, twice}, false)
	s.Must(err, "Enqueue of one job twice in one batch")
	if es[0].Duplicate || !es[1].Duplicate || es[1].ID != twice.ID {
		s.Fatalf("one job twice in one batch answered %+v", es)
	}
}

func enqueueFinalID(s *kit.Scene) {
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		j := s.Job(sojourn.Key("k-" + end.String()))
		s.Put(j)
		c := s.Claim()
		switch end {
		case sojourn.Completed:
			s.Finish(kit.Completed(c), end)
		case sojourn.Failed:
			s.Finish(kit.Abort(c), end)
		default:
			s.Cancel(j.ID)
		}
		again(s, j, end)
		s.ClaimNone("the job has ended")
	}
}

func enqueueChangedArgs(s *kit.Scene) {
	j := s.Job(sojourn.Key("k"), kit.Args("old"))
	s.Put(j) // its answer is lost
	s.Put(s.Job(sojourn.Key("k"), kit.Args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	again(s, j, sojourn.Ready)
	k := s.Job(kit.Args("old"))
	s.Put(k)
	a := []byte("new")
	s.Change(k.ID, sojourn.Edit{Args: &a}, sojourn.Ready)
	again(s, k, sojourn.Ready)
	kit.Same(s, "args", string(s.Get(k.ID).Args), "new")
}

func enqueueOtherContent(s *kit.Scene) {
	j := s.Job(sojourn.Key("k"))
	s.Put(j)
	before := s.Picture(j.ID)
	for what, change := range kit.InOrder(map[string]func(*sojourn.Job){
		"another kind": func(o *sojourn.Job) { o.Kind = "refund" },
		"another key":  func(o *sojourn.Job) { o.Key = "l" },
		"no key":       func(o *sojourn.Job) { o.Key = "" },
	}) {
		o := j
		change(&o)
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{o}, false)
		s.Is(err, sojourn.ErrConflict, what)
		s.Refused(err, sojourn.CodeConflict, what)
		es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{o}, true)
		s.Must(err, "Enqueue, partial")
		s.Is(es[0].Err, sojourn.ErrConflict, what+", partial")
	}
	s.Unchanged(j.ID, before, "a refused enqueue")
}

func enqueueBatch(s *kit.Scene) {
	good, bad, more := s.Job(), s.Job(), s.Job()
	bad.Weight = -1
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{good, bad, more}, false)
	kit.Same(s, "the index of the bad job", s.Refused(err, sojourn.CodeInvalid, "a batch with a bad job").Index, 1)
	s.Gone(good.ID)
	s.Gone(more.ID)
	s.Enqueue(sojourn.Key("k"))
	taken := s.Job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.ReturnError))
	_, err = s.Store.Enqueue(s.Ctx, []sojourn.Job{good, more, taken}, false)
	kit.Same(s, "the index of the refused job", s.Refused(err, sojourn.CodeConflict, "a batch with a taken key").Index, 2)
	s.Gone(good.ID)
	es, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{good, more}, false)
	s.Must(err, "Enqueue of the good ones")
	if len(es) != 2 || es[0].ID != good.ID || es[1].ID != more.ID || es[0].Duplicate || es[1].Duplicate {
		s.Fatalf("Enqueue answered %+v, want %d and %d as new", es, good.ID, more.ID)
	}
	s.State(good.ID, sojourn.Ready)
	s.State(more.ID, sojourn.Ready)
}

func enqueuePartial(s *kit.Scene) {
	s.Enqueue(sojourn.Key("taken"))
	jobs := []sojourn.Job{s.Job(), s.Job(), s.Job(sojourn.Key("taken"), sojourn.OnKeyConflict(sojourn.ReturnError)), s.Job(), s.Job(sojourn.Key("taken"))}
	jobs[1].Kind = "white space"
	es, err := s.Store.Enqueue(s.Ctx, jobs, true)
	s.Must(err, "Enqueue, partial")
	kit.Same(s, "answers", len(es), len(jobs))
	s.Refused(es[1].Err, sojourn.CodeInvalid, "the bad kind")
	s.Refused(es[2].Err, sojourn.CodeConflict, "the taken key")
	for _, i := range []int{0, 3} {
		s.Must(es[i].Err, "job %d of the batch", i)
		s.State(jobs[i].ID, sojourn.Ready)
	}
	if !es[4].Duplicate || es[4].Err != nil {
		s.Fatalf("a duplicate in partial mode answered %+v", es[4])
	}
	for _, i := range []int{1, 2, 4} {
		s.Gone(jobs[i].ID)
	}
}

func enqueueBad(s *kit.Scene) {
	bad := map[string]func(*sojourn.Job){
		"kind: empty":             func(j *sojourn.Job) { j.Kind = "" },
		"kind: blank":             func(j *sojourn.Job) { j.Kind = "a b" },
		"kind: long":              func(j *sojourn.Job) { j.Kind = strings.Repeat("k", sojourn.MaxName+1) },
		"queue: empty":            func(j *sojourn.Job) { j.Queue = "" },
		"queue: NUL":              func(j *sojourn.Job) { j.Queue = "a\x00" },
		"key: long":               func(j *sojourn.Job) { j.Key = strings.Repeat("k", sojourn.MaxKey+1) },
		"key: control character":  func(j *sojourn.Job) { j.Key = "a\nb" },
		"key: white space":        func(j *sojourn.Job) { j.Key = " " },
		"group: bad UTF-8":        func(j *sojourn.Job) { j.Group = "\xff" },
		"weight: negative":        func(j *sojourn.Job) { j.Weight = -1 },
		"weight: huge":            func(j *sojourn.Job) { j.Weight = sojourn.MaxWeight + 1 },
		"delay: negative":         func(j *sojourn.Job) { j.Delay = -1 },
		"delay: huge":             func(j *sojourn.Job) { j.Delay = math.MaxInt64 },
		"tags: many":              func(j *sojourn.Job) { j.Tags = make([]string, sojourn.MaxTags+1) },
		"tags: bad":               func(j *sojourn.Job) { j.Tags = []string{"a,b"} },
		"max_attempts: -2":        func(j *sojourn.Job) { j.Policy.MaxAttempts = -2 },
		"max_crashes: -2":         func(j *sojourn.Job) { j.Policy.MaxCrashes = -2 },
		"timeout: negative":       func(j *sojourn.Job) { j.Policy.Timeout = -1 },
		"deadline: huge":          func(j *sojourn.Job) { j.Policy.Deadline = math.MaxInt64 },
		"backoff.factor: NaN":     func(j *sojourn.Job) { j.Policy.Backoff.Factor = math.NaN() },
		"backoff.factor: below 1": func(j *sojourn.Job) { j.Policy.Backoff.Factor = 0.5 },
		"backoff.jitter: +Inf":    func(j *sojourn.Job) { j.Policy.Backoff.Jitter = math.Inf(1) },
		"id: zero":                func(j *sojourn.Job) { j.ID = 0 },
		"id: negative":            func(j *sojourn.Job) { j.ID = -1 },
		"id: 2^53":                func(j *sojourn.Job) { j.ID = 1 << 53 },
		"job: a literal":          func(j *sojourn.Job) { *j = sojourn.Job{ID: j.ID, Kind: kit.Kind, Queue: kit.Queue} },
	}
	for what, spoil := range kit.InOrder(bad) {
		j := s.Job()
		id := j.ID
		spoil(&j)
		_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{j}, false)
		e := s.Refused(err, sojourn.CodeInvalid, what)
		if field, _, _ := strings.Cut(what, ":"); e.Field != field {
			s.Errorf("%s: the error names the field %q", what, e.Field)
		}
		s.Gone(id)
	}
	big := s.Job(sojourn.Meta("k", strings.Repeat("v", sojourn.MaxMeta)))
	_, err := s.Store.Enqueue(s.Ctx, []sojourn.Job{big}, false)
	s.Refused(err, sojourn.CodeTooLarge, "meta above its limit")
	many := make([]sojourn.Job, sojourn.MaxBatch+1)
	for i := range many {
		many[i] = s.Job()
	}
	_, err = s.Store.Enqueue(s.Ctx, many, false)
	s.Refused(err, sojourn.CodeInvalid, "a batch of 1,001")
}

func enqueueMakesQueue(s *kit.Scene) {
	s.Enqueue(sojourn.Queue("brand-new"))
	kit.Same(s, "ready jobs", s.Queue("brand-new").Counts[sojourn.Ready], 1)
	kit.Same(s, "the job", s.Claim(kit.From("brand-new")).Job.Queue, "brand-new")
}
