package storetest

import (
	"math"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
)

var enqueueTrials = []trial{
	{"enqueue a job that is due", "A job without a run_at is ready at once, in generation 1, with nothing counted.",
		"tr:N3 spec:S1 spec:J9 spec:J15 spec:P12 inv:A1 inv:S5", enqueueReady},
	{"enqueue a job for later", "A job with a run_at or a delay is scheduled for that time of the store's clock.",
		"tr:N2 spec:J10 spec:P2 spec:P13 inv:S4 inv:K2", enqueueScheduled},
	{"a run_at in the past means now", "A run_at that has passed means now, and one more than ten years ahead is refused.",
		"tr:N3 spec:J10 inv:N1", enqueuePast},
	{"enqueue keeps every field", "What is enqueued is what is read, found and claimed.",
		"spec:J1 spec:J2 spec:J3 spec:J11 spec:J12 spec:J22 spec:J23 spec:J24 spec:P4", enqueueFields},
	{"enqueue fills in defaults", "What neither option nor kind nor queue says is the built-in default, stored with the job.",
		"spec:J7 spec:J11 spec:J12 spec:J19 spec:J24 spec:A12 spec:A17", enqueueDefaults},
	{"enqueue the same id again", "The same id with the same content is the same job, whatever its state, and nothing changes.",
		"tr:N4 spec:J1 inv:A3 inv:U3 rules:F1", enqueueSameID},
	{"rules:F6 the id of a job that has just ended", "Ids are unique over live and final jobs: a repeated enqueue never runs a finished job again.",
		"tr:N4 rules:F6 inv:S2 inv:A3 spec:S5", enqueueFinalID},
	{"enqueue the same id after its args have changed", "A repeated enqueue is that job, also when a replace or an operator has changed its args meanwhile.",
		"tr:N4 tr:N6 tr:O5 rules:F2 inv:A3", enqueueChangedArgs},
	{"enqueue an id with other content", "A known id with other content is a conflict and changes nothing.",
		"tr:N4 spec:J1 rules:F2", enqueueOtherContent},
	{"enqueue a batch, all or nothing", "A batch with one bad job stores none of it, and the error names the job.",
		"spec:P10 spec:A16 inv:A7 spec:B5", enqueueBatch},
	{"enqueue a batch in partial mode", "In partial mode each job stands for itself, with its own error.",
		"spec:P10 inv:A7 inv:P4", enqueuePartial},
	{"enqueue refuses bad input", "Bad input is refused with a code and a field before anything is written.",
		"spec:A3 spec:A16 spec:J2 spec:J7 spec:J11 spec:J12 spec:J19 spec:P2 spec:P4 inv:N1", enqueueBad},
	{"queues appear with their first job", "A queue need not be declared: its first job makes it.", "spec:A9 spec:A10", enqueueMakesQueue},
}

func enqueueReady(s *scene) {
	id := s.enqueue()
	j := s.state(id, sojourn.Ready)
	same(s, "generation", j.Generation, 1)
	same(s, "epoch", j.Epoch, 0)
	s.counters(id, 0, 0, 0)
	same(s, "error", j.Error+j.Reason, "")
	same(s, "resumed", j.Resumed, false)
	s.at("created_at", j.CreatedAt, s.now())
	s.at("run_at", j.RunAt, s.now())
	s.at("orig_run_at", j.OrigRunAt, s.now())
	s.happened(id)
	s.inFlight(0, "after the enqueue")
}

func enqueueScheduled(s *scene) {
	s.advance(time.Minute) // the delay counts from now, not from when the job was made
	when := s.now().Add(time.Hour).Add(123456 * time.Microsecond)
	a := s.enqueue(sojourn.RunAt(when))
	b := s.enqueue(sojourn.Delay(90 * time.Second))
	ja, jb := s.state(a, sojourn.Scheduled), s.state(b, sojourn.Scheduled)
	s.at("run_at", ja.RunAt, when)
	s.at("orig_run_at", ja.OrigRunAt, when)
	s.at("run_at of a delay", jb.RunAt, s.now().Add(90*time.Second))
	s.claimNone("both are scheduled")
	s.advance(90*time.Second - time.Microsecond)
	s.claimNone("a microsecond is left")
	s.advance(time.Microsecond)
	same(s, "the due job", s.claim().Job.ID, b)
	s.state(a, sojourn.Scheduled)
}

func enqueuePast(s *scene) {
	id := s.enqueue(sojourn.RunAt(s.now().Add(-time.Hour)))
	s.at("run_at", s.state(id, sojourn.Ready).RunAt, s.now())
	far := s.enqueue(sojourn.RunAt(s.now().Add(sojourn.MaxHorizon)))
	s.state(far, sojourn.Scheduled)
	beyond := s.job(sojourn.RunAt(s.now().Add(sojourn.MaxHorizon + time.Second)))
	_, err := s.store.Enqueue(s.ctx, []sojourn.Job{beyond}, false)
	s.refused(err, sojourn.CodeInvalid, "run_at more than ten years ahead")
	s.gone(beyond.ID)
}

func enqueueFields(s *scene) {
	p := sojourn.Policy{MaxAttempts: 7, MaxCrashes: sojourn.Unlimited, RunTimeout: time.Minute, Timeout: time.Hour, Deadline: 48 * time.Hour,
		DecideWithin: 3 * time.Minute, KeepKey: time.Second, OnLost: sojourn.Fail, OnPanic: sojourn.Fail,
		LateResponse: sojourn.InboxLate, NoExtend: new(true), StopAtWindowEnd: new(true),
		Windows: []sojourn.Windows{{{Start: "00:00", End: "23:59:59", Zone: "Europe/Berlin", Except: []string{"2026-12-25"}}, {Start: "12:00", End: "12:00"}}},
		Backoff: sojourn.Backoff{First: 1500 * time.Millisecond, Factor: 2.5, Limit: 7 * time.Minute, Jitter: 0.25}}
	j := s.job(ofKind("mail.send:v2/eu-1"), sojourn.Queue("mail_OUT"), sojourn.Key("Bestellung № 42 ü"), sojourn.Group("Händler/7"), args("{\"a\": [ 1.0 ] }\n"),
		sojourn.Priority(math.MinInt32), sojourn.Weight(sojourn.MaxWeight), sojourn.Tags("b", "a", "b"), sojourn.Meta("traceparent", "00-ab"),
		sojourn.Meta("tenant", "ü'\"%\x00"), policy(p))
	j.ContentType = "application/vnd.order+json"
	s.put(j)
	claimed := s.claim(from("mail_OUT"), kinds("mail.send:v2/eu-1")).Job
	for what, got := range inOrder(map[string]sojourn.Job{"the found job": s.get(j.ID), "the claimed job": claimed}) {
		same(s, what+": kind", got.Kind, j.Kind)
		same(s, what+": queue", got.Queue, j.Queue)
		same(s, what+": key", got.Key, j.Key)
		same(s, what+": group", got.Group, j.Group)
		same(s, what+": args", string(got.Args), string(j.Args))
		same(s, what+": content type", got.ContentType, j.ContentType)
		same(s, what+": priority", got.Priority, math.MinInt32)
		same(s, what+": weight", got.Weight, sojourn.MaxWeight)
		same(s, what+": tags", len(got.Tags), 2)
		same(s, what+": meta", got.Meta["traceparent"]+got.Meta["tenant"], "00-abü'\"%\x00")
		same(s, what+": policy", text(got.Policy), text(p))
		same(s, what+": instance", got.Instance != "", true)
	}
}

func enqueueDefaults(s *scene) {
	made := *sojourn.NewJob(charge, nil)
	made.ID = s.id()
	j := s.get(s.put(made).ID)
	same(s, "priority", j.Priority, sojourn.DefaultPriority)
	same(s, "weight", j.Weight, sojourn.DefaultWeight)
	same(s, "max_attempts", j.Policy.MaxAttempts, sojourn.DefaultMaxAttempts)
	same(s, "max_crashes", j.Policy.MaxCrashes, sojourn.DefaultMaxCrashes)
	same(s, "timeout", j.Policy.Timeout, sojourn.DefaultTimeout)
	same(s, "decide_within", j.Policy.DecideWithin, sojourn.DefaultDecideWithin)
	same(s, "deadline", j.Policy.Deadline, 0)
	same(s, "backoff", j.Policy.Backoff, sojourn.Backoff{First: 5 * time.Second, Factor: 4, Limit: time.Hour, Jitter: 1})
	same(s, "content type", j.ContentType, "application/json")
	encoded := text(j)
	for _, absent := range []string{"null", `""`, "0001-01-01", "[]", "{}", `"key"`, `"group"`, `"tags"`, `"meta"`, `"result"`, `"finished_at"`} {
		same(s, "absent from the JSON of a job: "+absent, strings.Contains(encoded, absent), false)
	}
	z := s.get(s.enqueue(sojourn.Priority(0), sojourn.Weight(0)))
	same(s, "priority 0, given", z.Priority, 0)
	same(s, "weight 0, given", z.Weight, 0)
}

// again enqueues the same job once more, and wants nothing to change.
func (s *scene) again(j sojourn.Job, want sojourn.State) {
	s.Helper()
	before := s.picture(j.ID)
	if e := s.put(j); e.ID != j.ID || !e.Duplicate || e.State != want || e.Replaced {
		s.Fatalf("the same id again answered %+v, want a duplicate of %d, %s", e, j.ID, want)
	}
	s.unchanged(j.ID, before, "a repeated enqueue")
}

func enqueueSameID(s *scene) {
	j := s.job(sojourn.Key("k"))
	s.put(j)
	s.again(j, sojourn.Ready)
	c := s.claim()
	s.advance(time.Second)
	s.again(j, sojourn.Running)
	s.finish(await(c, 0), sojourn.Awaiting)
	s.again(j, sojourn.Awaiting)
	later := s.job(sojourn.Delay(time.Hour))
	s.put(later)
	s.again(later, sojourn.Scheduled)
	later.OnConflict = sojourn.ReturnError // is about keys
	s.again(later, sojourn.Scheduled)
	twice := s.job()
	es, err := s.store.Enqueue(s.ctx, []sojourn.Job{twice, twice}, false)
	s.must(err, "Enqueue of one job twice in one batch")
	if es[0].Duplicate || !es[1].Duplicate || es[1].ID != twice.ID {
		s.Fatalf("one job twice in one batch answered %+v", es)
	}
}

func enqueueFinalID(s *scene) {
	for _, end := range []sojourn.State{sojourn.Completed, sojourn.Failed, sojourn.Cancelled} {
		j := s.job(sojourn.Key("k-" + end.String()))
		s.put(j)
		c := s.claim()
		switch end {
		case sojourn.Completed:
			s.finish(completed(c), end)
		case sojourn.Failed:
			s.finish(abort(c), end)
		default:
			s.cancel(j.ID)
		}
		s.again(j, end)
		s.claimNone("the job has ended")
	}
}

func enqueueChangedArgs(s *scene) {
	j := s.job(sojourn.Key("k"), args("old"))
	s.put(j) // its answer is lost
	s.put(s.job(sojourn.Key("k"), args("new"), sojourn.OnKeyConflict(sojourn.Replace)))
	s.again(j, sojourn.Ready)
	k := s.job(args("old"))
	s.put(k)
	a := []byte("new")
	s.change(k.ID, sojourn.Change{Args: &a}, sojourn.Ready)
	s.again(k, sojourn.Ready)
	same(s, "args", string(s.get(k.ID).Args), "new")
}

func enqueueOtherContent(s *scene) {
	j := s.job(sojourn.Key("k"))
	s.put(j)
	before := s.picture(j.ID)
	for what, change := range inOrder(map[string]func(*sojourn.Job){
		"another kind": func(o *sojourn.Job) { o.Kind = "refund" },
		"another key":  func(o *sojourn.Job) { o.Key = "l" },
		"no key":       func(o *sojourn.Job) { o.Key = "" },
	}) {
		o := j
		change(&o)
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{o}, false)
		s.is(err, sojourn.ErrConflict, what)
		s.refused(err, sojourn.CodeConflict, what)
		es, err := s.store.Enqueue(s.ctx, []sojourn.Job{o}, true)
		s.must(err, "Enqueue, partial")
		s.is(es[0].Err, sojourn.ErrConflict, what+", partial")
	}
	s.unchanged(j.ID, before, "a refused enqueue")
}

func enqueueBatch(s *scene) {
	good, bad, more := s.job(), s.job(), s.job()
	bad.Weight = -1
	_, err := s.store.Enqueue(s.ctx, []sojourn.Job{good, bad, more}, false)
	same(s, "the index of the bad job", s.refused(err, sojourn.CodeInvalid, "a batch with a bad job").Index, 1)
	s.gone(good.ID)
	s.gone(more.ID)
	s.enqueue(sojourn.Key("k"))
	taken := s.job(sojourn.Key("k"), sojourn.OnKeyConflict(sojourn.ReturnError))
	_, err = s.store.Enqueue(s.ctx, []sojourn.Job{good, more, taken}, false)
	same(s, "the index of the refused job", s.refused(err, sojourn.CodeConflict, "a batch with a taken key").Index, 2)
	s.gone(good.ID)
	es, err := s.store.Enqueue(s.ctx, []sojourn.Job{good, more}, false)
	s.must(err, "Enqueue of the good ones")
	if len(es) != 2 || es[0].ID != good.ID || es[1].ID != more.ID || es[0].Duplicate || es[1].Duplicate {
		s.Fatalf("Enqueue answered %+v, want %d and %d as new", es, good.ID, more.ID)
	}
	s.state(good.ID, sojourn.Ready)
	s.state(more.ID, sojourn.Ready)
}

func enqueuePartial(s *scene) {
	s.enqueue(sojourn.Key("taken"))
	jobs := []sojourn.Job{s.job(), s.job(), s.job(sojourn.Key("taken"), sojourn.OnKeyConflict(sojourn.ReturnError)), s.job(), s.job(sojourn.Key("taken"))}
	jobs[1].Kind = "white space"
	es, err := s.store.Enqueue(s.ctx, jobs, true)
	s.must(err, "Enqueue, partial")
	same(s, "answers", len(es), len(jobs))
	s.refused(es[1].Err, sojourn.CodeInvalid, "the bad kind")
	s.refused(es[2].Err, sojourn.CodeConflict, "the taken key")
	for _, i := range []int{0, 3} {
		s.must(es[i].Err, "job %d of the batch", i)
		s.state(jobs[i].ID, sojourn.Ready)
	}
	if !es[4].Duplicate || es[4].Err != nil {
		s.Fatalf("a duplicate in partial mode answered %+v", es[4])
	}
	for _, i := range []int{1, 2, 4} {
		s.gone(jobs[i].ID)
	}
}

func enqueueBad(s *scene) {
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
		"job: a literal":          func(j *sojourn.Job) { *j = sojourn.Job{ID: j.ID, Kind: charge, Queue: line} },
	}
	for what, spoil := range inOrder(bad) {
		j := s.job()
		id := j.ID
		spoil(&j)
		_, err := s.store.Enqueue(s.ctx, []sojourn.Job{j}, false)
		e := s.refused(err, sojourn.CodeInvalid, what)
		if field, _, _ := strings.Cut(what, ":"); e.Field != field {
			s.Errorf("%s: the error names the field %q", what, e.Field)
		}
		s.gone(id)
	}
	big := s.job(sojourn.Meta("k", strings.Repeat("v", sojourn.MaxMeta)))
	_, err := s.store.Enqueue(s.ctx, []sojourn.Job{big}, false)
	s.refused(err, sojourn.CodeTooLarge, "meta above its limit")
	many := make([]sojourn.Job, sojourn.MaxBatch+1)
	for i := range many {
		many[i] = s.job()
	}
	_, err = s.store.Enqueue(s.ctx, many, false)
	s.refused(err, sojourn.CodeInvalid, "a batch of 1,001")
}

func enqueueMakesQueue(s *scene) {
	s.enqueue(sojourn.Queue("brand-new"))
	same(s, "ready jobs", s.queue("brand-new").Counts[sojourn.Ready], 1)
	same(s, "the job", s.claim(from("brand-new")).Job.Queue, "brand-new")
}
