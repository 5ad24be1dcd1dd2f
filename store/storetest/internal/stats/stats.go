// Package stats has the cases about statistics.
package stats

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/store/statistics"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return []kit.Trial{
		{Name: "statistics of lives", Law: "Enqueues, ends, retries and failures by reason are counted when they happen, each once.", Covers: "spec:X1 spec:X7", Run: lives},
		{Name: "statistics of times", Law: "Waits begin when a job could start, runs are those that workers reported, totals begin with the enqueue or redrive.", Covers: "spec:X1 spec:X2", Run: times},
		{Name: "statistics of responses", Law: "Response times are from the begin of a wait to the response that ended it, whatever came in between.", Covers: "spec:X1", Run: responseTimes},
		{Name: "repeats count once", Law: "Duplicates, repeated claims and repeated reports change no statistics.", Covers: "spec:X7", Run: repeats},
		{Name: "statistics by day", Law: "An event belongs to the UTC day on which it happened.", Covers: "spec:X3", Run: days},
		{Name: "statistics are kept for some time", Law: "Days are kept for 30 days, and their histograms for 7.", Covers: "spec:X11", Run: retention},
		{Name: "percentiles", Law: "Means and variances are those of all times, and each percentile is in the bucket of the exact one.", Covers: "spec:X4 spec:X5 spec:X6", Run: percentiles},
		{Name: "statistics of tenants", Law: "A token sees the statistics of queues and kinds that it may read.", Covers: "spec:X1 spec:H7", Run: tenants},
		{Name: "statistics by dimension", Law: "Rows are grouped by any of day, queue and kind, and their sums agree.", Covers: "spec:X1", Run: dimensions},
	}
}

// rows reads statistics.
func rows(s *kit.Scene, q statistics.Query) []statistics.Row {
	s.Helper()
	if _, ok := s.Store.(statistics.Store); !ok {
		s.Skip("this store has no statistics")
	}
	out, err := statistics.Of(sojourn.NewClient(s.Store)).Rows(s.Ctx, q)
	s.Must(err, "Rows")
	return out
}

// total reads the statistics of today in total.
func total(s *kit.Scene) statistics.Row {
	s.Helper()
	found := rows(s, statistics.Query{})
	kit.Same(s, "rows of a query without dimensions", len(found), 1)
	return found[0]
}

// counts are the numbers of a row: enqueued, completed, failed, cancelled, retried, redriven,
// failures, and these by reason.
func counts(r statistics.Row) string {
	return fmt.Sprint(r.Enqueued, r.Completed, r.Failed, r.Cancelled, r.Retried, r.Redriven, r.Failures, r.Reasons)
}

// same wants times to have a number and a mean.
func same(s *kit.Scene, what string, got statistics.Times, times ...time.Duration) {
	s.Helper()
	sum, squares, most := 0.0, 0.0, 0.0
	for _, d := range times {
		sum += d.Seconds()
		most = max(most, d.Seconds())
	}
	mean := sum / float64(max(len(times), 1))
	for _, d := range times {
		squares += (d.Seconds() - mean) * (d.Seconds() - mean)
	}
	variance := squares / float64(max(len(times)-1, 1))
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }
	if got.Count != int64(len(times)) || !near(got.Mean, mean) || !near(got.Variance, variance) || !near(got.Max, most) {
		s.Fatalf("%s are %+v, want %v", what, got, times)
	}
}

func lives(s *kit.Scene) {
	kit.Same(s, "nothing yet", counts(total(s)), "0 0 0 0 0 0 0 map[]")
	s.Enqueue()
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	failing := s.Enqueue(sojourn.MaxAttempts(2), kit.Steady(time.Minute))
	s.Finish(kit.Failure(s.Claim()), sojourn.Scheduled)
	kit.Same(s, "after a retry", counts(total(s)), "2 1 0 0 1 0 1 map[gateway:1]")
	s.Advance(time.Minute)
	s.Finish(kit.Failure(s.Claim()), sojourn.Failed)
	s.Enqueue()
	s.Finish(kit.Abort(s.Claim()), sojourn.Failed)
	s.Cancel(s.Enqueue())
	lost := s.Enqueue()
	s.Claim()
	s.Swept(kit.LeaseTime, driver.Swept{Lost: 1})
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	s.State(lost, sojourn.Completed)
	want := "5 2 2 1 2 0 4 map[declined:1 gateway:2 lease_lost:1]"
	kit.Same(s, "after all", counts(total(s)), want)
	s.Sweep()
	kit.Same(s, "folded", counts(total(s)), want)
	s.Edited(failing, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	s.Enqueue(sojourn.Deadline(time.Hour))
	s.Swept(time.Hour+time.Second, driver.Swept{Deadlines: 1})
	want = "6 3 3 1 2 1 5 map[deadline:1 declined:1 gateway:2 lease_lost:1]"
	kit.Same(s, "after a redrive and a deadline", counts(total(s)), want)
	s.Sweep()
	kit.Same(s, "folded again", counts(total(s)), want)
}

func times(s *kit.Scene) {
	s.Enqueue()
	s.Advance(3 * time.Second)
	c := s.Claim()
	s.Advance(7 * time.Second)
	s.Finish(kit.Completed(c), sojourn.Completed)
	r := total(s)
	same(s, "waits", r.Wait, 3*time.Second)
	same(s, "runs", r.Run, 7*time.Second)
	same(s, "totals", r.Total, 10*time.Second)
	same(s, "responses", r.Response)

	// A delay is no wait, but part of the total time.
	s.Enqueue(sojourn.RunAt(s.Now().Add(time.Minute)), kit.Steady(time.Hour))
	s.Advance(time.Minute + time.Second)
	c = s.Claim()
	s.Advance(2 * time.Second)
	s.Finish(kit.Released(c), sojourn.Ready) // it keeps its run_at
	s.Advance(4 * time.Second)
	c = s.Claim()
	s.Advance(5 * time.Second)
	s.Finish(kit.Failure(c), sojourn.Scheduled)
	s.Advance(time.Hour + 6*time.Second)
	s.Sweep()
	id := c.Job.ID
	c = s.Claim()
	s.Finish(kit.Abort(c), sojourn.Failed)
	life := time.Hour + time.Minute + 18*time.Second
	r = total(s)
	same(s, "waits with retries", r.Wait, 3*time.Second, time.Second, 4*time.Second, 6*time.Second)
	same(s, "runs with retries", r.Run, 7*time.Second, 2*time.Second, 5*time.Second, 0)
	same(s, "totals with retries", r.Total, 10*time.Second, life)

	// A redrive begins another life. A lost lease and a cancelled job have no run, and no total.
	s.Advance(time.Hour)
	s.Edited(id, sojourn.Edit{Action: sojourn.EditRedrive}, sojourn.Ready)
	s.Advance(8 * time.Second)
	s.Claim()
	s.Advance(9 * time.Second)
	s.Cancel(id)
	s.Enqueue(sojourn.Queue("other"))
	s.Sweep()
	r = total(s)
	same(s, "waits after all", r.Wait, 3*time.Second, time.Second, 4*time.Second, 6*time.Second, 8*time.Second)
	same(s, "runs after all", r.Run, 7*time.Second, 2*time.Second, 5*time.Second, 0)
	same(s, "totals after all", r.Total, 10*time.Second, life)
}

func responseTimes(s *kit.Scene) {
	s.Enqueue(sojourn.Key("a"))
	s.Finish(kit.Polled(s.Claim(), time.Hour, kit.Every(10*time.Second)), sojourn.Awaiting)
	s.Advance(10 * time.Second)
	s.Finish(kit.NoAnswer(s.Claim(kit.Polling)), sojourn.Awaiting)
	s.Respond("a", kit.Progress("half"))
	s.Advance(5 * time.Second)
	s.Respond("a")
	r := total(s)
	same(s, "responses", r.Response, 15*time.Second)
	s.Advance(time.Second)
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)

	id := s.Enqueue(sojourn.Key("b"), sojourn.MaxAttempts(1))
	s.Finish(kit.AwaitAll(s.Claim(), time.Hour, "x", "y"), sojourn.Awaiting)
	s.Advance(2 * time.Second)
	s.Respond("x")
	s.Advance(2 * time.Second)
	s.Respond("y")
	s.Finish(kit.Await(s.Claim(), time.Hour, "z"), sojourn.Awaiting) // the second wait begins anew
	s.Advance(7 * time.Second)
	s.Respond("z", kit.Failing("declined"))
	s.State(id, sojourn.Failed)
	same(s, "responses of waits for all, and errors", total(s).Response, 15*time.Second, 4*time.Second, 7*time.Second)

	s.Enqueue(sojourn.Key("c"), sojourn.MaxAttempts(1))
	s.Finish(kit.Await(s.Claim(), time.Minute), sojourn.Awaiting)
	s.Swept(time.Minute, driver.Swept{TimedOut: 1})
	s.Respond("early")
	s.Enqueue(sojourn.Key("early"))
	s.Finish(kit.Await(s.Claim(), time.Minute), sojourn.Ready) // answered before
	r = total(s)
	same(s, "responses after a timeout and an early one", r.Response, 15*time.Second, 4*time.Second, 7*time.Second, 0)
	kit.Same(s, "failures", fmt.Sprint(r.Reasons), "map[declined:1 timeout:1]")
}

func repeats(s *kit.Scene) {
	j := s.Job(sojourn.Key("k"))
	s.Put(j)
	s.Put(j) // the same request
	other := s.Job(sojourn.Key("k"))
	s.Put(other) // the key is taken
	request := s.Request()
	c := s.ClaimAs(request)[0]
	s.Advance(time.Second)
	s.ClaimAs(request)
	s.Finish(kit.Completed(c), sojourn.Completed)
	s.Reports(kit.Completed(c), driver.FinishRepeated)
	s.Reports(kit.Failure(c), driver.FinishLost)
	r := total(s)
	kit.Same(s, "counts", counts(r), "1 1 0 0 0 0 0 map[]")
	kit.Same(s, "times", fmt.Sprint(r.Wait.Count, r.Run.Count, r.Total.Count), "1 1 1")
	jobs := []sojourn.Job{s.Job(), s.Job(sojourn.Queue("no queue"))}
	_, err := s.Store.Enqueue(s.Ctx, jobs, false)
	s.Refused(err, sojourn.CodeInvalid, "a bad name")
	kit.Same(s, "counts after a refusal", counts(total(s)), "1 1 0 0 0 0 0 map[]")
}

func days(s *kit.Scene) {
	midnight := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	s.Advance(midnight.Add(-time.Microsecond).Sub(s.Now()))
	s.Enqueue()
	c := s.Claim()
	s.Advance(time.Microsecond)
	s.Finish(kit.Completed(c), sojourn.Completed)
	check := func() {
		s.Helper()
		found := rows(s, statistics.Query{Days: 2, By: []statistics.Dimension{statistics.ByDay}})
		kit.Same(s, "days", len(found), 2)
		kit.Same(s, "first day", fmt.Sprint(found[0].Day+" ", found[0].Enqueued, found[0].Completed, found[0].Wait.Count, found[0].Run.Count), "2026-03-02 1 0 1 0")
		kit.Same(s, "second day", fmt.Sprint(found[1].Day+" ", found[1].Enqueued, found[1].Completed, found[1].Wait.Count, found[1].Run.Count), "2026-03-03 0 1 0 1")
		kit.Same(s, "today", counts(total(s)), "0 1 0 0 0 0 0 map[]")
	}
	check()
	s.Sweep()
	check()
}

func retention(s *kit.Scene) {
	const day = 24 * time.Hour
	s.Enqueue()
	s.Finish(kit.Completed(s.Claim()), sojourn.Completed)
	all := statistics.Query{Days: 100, Histogram: true}
	kept := func(what string, enqueued int64, histogram int) {
		s.Helper()
		s.Sweep()
		r := rows(s, all)[0]
		kit.Same(s, what, fmt.Sprint(r.Enqueued, len(r.Run.Histogram)), fmt.Sprint(enqueued, histogram))
	}
	kept("today", 1, 1)
	s.Advance((statistics.DefaultHistogramDays - 1) * day)
	kept("the last day of the histograms", 1, 1)
	s.Advance(day)
	kept("the day after", 1, 0)
	s.Advance((statistics.DefaultDays - statistics.DefaultHistogramDays - 1) * day)
	kept("the last day", 1, 0)
	s.Advance(day)
	kept("after the last day", 0, 0)
	for _, q := range []statistics.Query{{Days: -1}, {Days: statistics.MaxDays + 1}, {By: []statistics.Dimension{"tag"}}} {
		_, err := statistics.Of(sojourn.NewClient(s.Store)).Rows(s.Ctx, q)
		s.Refused(err, sojourn.CodeInvalid, fmt.Sprintf("query %+v", q))
	}
}

func percentiles(s *kit.Scene) {
	var all []time.Duration
	for range 60 {
		s.EnqueueMany(4)
		claimed := s.ClaimMany(kit.UpTo(4))
		d := time.Duration(math.Exp(float64(s.Random(16500))/1000)) * time.Microsecond // up to 15 s
		s.Advance(d)
		for _, c := range claimed {
			s.Report(kit.Completed(c))
			all = append(all, d)
		}
		if s.Random(10) == 0 {
			s.Sweep()
		}
	}
	r := rows(s, statistics.Query{Days: 2, Histogram: true})[0]
	same(s, "runs", r.Run, all...)
	slices.Sort(all)
	sum := int64(0)
	for _, b := range r.Run.Histogram {
		n := 0
		for _, d := range all {
			if d.Seconds() >= b.From-1e-9 && d.Seconds() < b.To-1e-9 {
				n++
			}
		}
		kit.Same(s, fmt.Sprintf("times from %v to %v", b.From, b.To), b.Count, int64(n))
		if b.From >= 0.0001 && b.From < 10 && b.To-b.From > 0.1*b.From+1e-9 {
			s.Errorf("the bucket from %v to %v is too wide", b.From, b.To)
		}
		sum += b.Count
	}
	kit.Same(s, "times in the histogram", sum, int64(len(all)))
	for q, got := range map[float64]float64{0.5: r.Run.P50, 0.9: r.Run.P90, 0.95: r.Run.P95, 0.99: r.Run.P99, 0.999: r.Run.P999} {
		exact := all[int(math.Ceil(q*float64(len(all))))-1].Seconds()
		in := func(b statistics.Bucket) bool { return exact >= b.From-1e-9 && exact < b.To-1e-9 }
		i := slices.IndexFunc(r.Run.Histogram, in)
		if i < 0 || got < r.Run.Histogram[i].From-1e-9 || got > r.Run.Histogram[i].To+1e-9 {
			s.Errorf("percentile %v is %v, the exact one is %v", 100*q, got, exact)
		}
	}
}

func tenants(s *kit.Scene) {
	for _, queue := range []string{"ours", "theirs"} {
		for _, kind := range []string{"mail", "sms"} {
			s.Enqueue(sojourn.Queue(queue), kit.OfKind(kind))
		}
	}
	by := statistics.Query{By: []statistics.Dimension{statistics.ByQueue, statistics.ByKind}}
	for range 2 { // not folded and folded
		kit.Same(s, "all rows", len(rows(s, by)), 4)
		mail := s.Tenant("mail", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "ours", Kind: "mail"})
		found := rows(mail, by)
		kit.Same(s, "rows", len(found), 1)
		kit.Same(s, "row", fmt.Sprint(found[0].Queue, " ", found[0].Kind, " ", found[0].Enqueued), "ours mail 1")
		kit.Same(s, "total", rows(mail, statistics.Query{})[0].Enqueued, 1)
		kit.Same(s, "rows of the other queue", len(rows(mail, statistics.Query{Queue: "theirs", By: by.By})), 0)
		kit.Same(s, "total of the other queue", rows(mail, statistics.Query{Queue: "theirs"})[0].Enqueued, 0)
		ours := s.Tenant("ours", access.Grant{Verbs: []access.Verb{access.VerbRead}, Queue: "ours", Kind: "*"})
		kit.Same(s, "total of a queue", rows(ours, statistics.Query{})[0].Enqueued, 2)
		s.Sweep()
	}
}

func dimensions(s *kit.Scene) {
	for i := range 12 {
		s.Enqueue(sojourn.Queue([]string{"a", "b"}[i%2]), kit.OfKind([]string{"k", "l", "m"}[i%3]))
		if i%4 == 3 {
			s.Sweep()
			s.Advance(24 * time.Hour)
		}
	}
	s.Enqueue(sojourn.Queue("a"), kit.OfKind("k"))
	for _, c := range []struct {
		q    statistics.Query
		want string
	}{
		{statistics.Query{}, "[   1]"},
		{statistics.Query{Days: 30}, "[   13]"},
		{statistics.Query{Days: 30, By: []statistics.Dimension{statistics.ByQueue}}, "[ a  7] [ b  6]"},
		{statistics.Query{Days: 30, By: []statistics.Dimension{statistics.ByKind}}, "[  k 5] [  l 4] [  m 4]"},
		{statistics.Query{Days: 30, By: []statistics.Dimension{statistics.ByDay}}, "[2026-03-02   4] [2026-03-03   4] [2026-03-04   4] [2026-03-05   1]"},
		{statistics.Query{Days: 30, Queue: "b", By: []statistics.Dimension{statistics.ByKind, statistics.ByQueue}}, "[ b k 2] [ b l 2] [ b m 2]"},
		{statistics.Query{Days: 30, Kind: "m", Queue: "a"}, "[   2]"},
		{statistics.Query{Days: 2, By: []statistics.Dimension{statistics.ByDay}}, "[2026-03-04   4] [2026-03-05   1]"},
	} {
		got := ""
		for i, r := range rows(s, c.q) {
			if i > 0 {
				got += " "
			}
			got += fmt.Sprintf("[%s %s %s %d]", r.Day, r.Queue, r.Kind, r.Enqueued)
		}
		kit.Same(s, fmt.Sprintf("rows of %+v", c.q), got, c.want)
	}
}
