package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/jobrow"
	"github.com/sojourn-queue/sojourn/throttle"
)

// GoThrottler is the throttle setting of a queue whose throttler is Go code. A process without a
// throttler for the queue starts none of its jobs, as a process without rules does for a rule.
const GoThrottler = "go"

// Errors of a queue whose throttler this process does not have.
var (
	errNoRules = errors.New("this process knows no rules: open its store with the option Rules(rule.Throttlers())")
	errNoGo    = errors.New(`the queue wants a throttler in Go ("throttle": "go"): open this process's store with the option Throttle`)
)

// throttlers holds the throttlers of this process and its compiled rules. A queue may have one of
// each. Safe for concurrent use.
type throttlers struct {
	Own     map[string]throttle.Throttler                 // by queue; never changed
	Compile func(text string) (throttle.Throttler, error) // nil: this process knows no rules

	mu        sync.Mutex
	rules     map[string]compiled  // by text, at most maxCompiled
	abandoned map[string]int       // queue → calls that were abandoned and have not returned
	logged    map[string]time.Time // queue → when an error was last logged
	failed    map[string]int64     // queue → failures that are not stored yet
}

// maxCompiled bounds the cache of compiled rules. Settings change rarely.
const maxCompiled = 1000

// compiled is a rule, or the reason why its text is none.
type compiled struct {
	throttler throttle.Throttler
	err       error
}

// untimed marks a throttler in Go, which need not keep the time limit of its context.
type untimed struct{ throttle.Throttler }

// CheckRule compiles a throttle setting, and returns why it is not a rule. Compile must not be nil.
func (th *throttlers) CheckRule(text string) error { return th.rule(text).err }

// rule compiles a text, or returns the cached result.
func (th *throttlers) rule(text string) compiled {
	th.mu.Lock()
	defer th.mu.Unlock()
	c, ok := th.rules[text]
	if !ok {
		c.throttler, c.err = th.Compile(text)
		if len(th.rules) >= maxCompiled || th.rules == nil {
			th.rules = map[string]compiled{}
		}
		th.rules[text] = c
	}
	return c
}

// of returns the throttlers of a queue, the rule first, or an error if this process does not have
// them all.
func (th *throttlers) of(queue, text string) (chain []throttle.Throttler, err error) {
	own := th.Own[queue]
	switch {
	case text == "" || text == GoThrottler && own != nil:
	case text == GoThrottler:
		return nil, errNoGo
	case th.Compile == nil:
		return nil, errNoRules
	default:
		c := th.rule(text)
		if c.err != nil {
			return nil, c.err
		}
		chain = append(chain, c.throttler)
	}
	if own != nil {
		chain = append(chain, untimed{own})
	}
	return chain, nil
}

// abandonedCalls returns how many abandoned calls about a queue have not returned yet.
func (th *throttlers) abandonedCalls(queue string) int {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.abandoned[queue]
}

// addAbandoned adds to the number of abandoned calls about a queue.
func (th *throttlers) addAbandoned(queue string, n int) {
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.abandoned == nil {
		th.abandoned = map[string]int{}
	}
	if th.abandoned[queue] += n; th.abandoned[queue] == 0 {
		delete(th.abandoned, queue)
	}
}

// addFailures adds to the failures of a queue that are not stored yet, and returns their number.
func (th *throttlers) addFailures(queue string, n int64) int64 {
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.failed == nil {
		th.failed = map[string]int64{}
	}
	th.failed[queue] += n
	return th.failed[queue]
}

// pass asks the throttlers of one queue about the candidates of one claim. After an answer that
// took too long it is over: everything is refused until the next pass. Only the time of answers
// counts, not the time of the database.
type pass struct {
	th     *throttlers
	queue  string
	chain  []throttle.Throttler
	took   time.Duration // of all answers
	over   error         // why everything is refused; nil: it is not
	failed int64         // answers that were errors
	last   error         // the last of them
}

// begin starts a pass. The caller ends it.
func (th *throttlers) begin(queue, text string) *pass {
	p := &pass{th: th, queue: queue}
	p.chain, p.over = th.of(queue, text)
	if p.over == nil && th.abandonedCalls(queue) > 0 {
		p.over = fmt.Errorf("the throttler has not answered an earlier claim yet (it may take %v)", sojourn.MaxThrottle)
	}
	if p.over != nil {
		p.failed, p.last = 1, p.over
	}
	return p
}

// end logs the last error, once a minute a queue.
func (p *pass) end(now time.Time) {
	if p.last == nil {
		return
	}
	p.th.mu.Lock()
	defer p.th.mu.Unlock()
	if p.th.logged == nil {
		p.th.logged = map[string]time.Time{}
	}
	if last := p.th.logged[p.queue]; now.Sub(last).Abs() >= time.Minute {
		p.th.logged[p.queue] = now
		slog.Warn("sojourn: a throttler failed; what it was asked about does not start", "queue", p.queue, "failures", p.failed, "error", p.last)
	}
}

// answerBudget is the total time of answers after which a claim asks no more questions: many cheap
// answers are no reason to fail closed.
const answerBudget = sojourn.MaxThrottle / 10

// Stopped reports whether the pass is over, or has used up the time for further questions.
func (p *pass) Stopped() bool { return p.over != nil || p.took > answerBudget }

// decide returns the combined answer of the throttlers: the first one that does not start the
// candidate decides. An error refuses this candidate only, so that a job whose data a rule cannot
// handle does not block other jobs.
func (p *pass) decide(c *throttle.Candidate, f *throttle.Flight) throttle.Admission {
	if p.over != nil {
		return throttle.Admission{Text: firstLine(p.over)}
	}
	for _, t := range p.chain {
		a, err := p.answer(t, c, f)
		if err != nil {
			p.failed++
			p.last = err
			return throttle.Admission{Text: firstLine(err)}
		}
		if !a.Start {
			return a
		}
	}
	return throttle.Admission{Start: true}
}

// answer asks one throttler. Rules keep their time limit themselves. Go code may not, so it runs in
// a goroutine: a call that hangs is abandoned, and blocks further calls until it returns.
func (p *pass) answer(t throttle.Throttler, c *throttle.Candidate, f *throttle.Flight) (throttle.Admission, error) {
	began := time.Now()
	defer func() { p.took += time.Since(began) }()
	ctx, cancel := context.WithTimeout(context.Background(), sojourn.MaxThrottle-p.took)
	defer cancel()
	own, ok := t.(untimed)
	if !ok {
		a, err := callThrottler(ctx, t, c, f)
		if err != nil && ctx.Err() != nil {
			p.over = err
		}
		return a, err
	}
	type answer struct {
		a   throttle.Admission
		err error
	}
	done := make(chan answer, 1)
	var decided atomic.Bool // by the first of the two: the answer, or the caller that gives up waiting
	go func() {
		a, err := callThrottler(ctx, own.Throttler, c, f)
		done <- answer{a, err}
		if !decided.CompareAndSwap(false, true) {
			p.th.addAbandoned(p.queue, -1)
		}
	}()
	select {
	case a := <-done:
		return a.a, a.err
	case <-ctx.Done():
	}
	p.th.addAbandoned(p.queue, 1)
	if !decided.CompareAndSwap(false, true) {
		p.th.addAbandoned(p.queue, -1)
	}
	p.over = fmt.Errorf("the throttler took longer than %v for one claim", sojourn.MaxThrottle)
	return throttle.Admission{}, p.over
}

// callThrottler turns a panic into an error.
func callThrottler(ctx context.Context, t throttle.Throttler, c *throttle.Candidate, f *throttle.Flight) (a throttle.Admission, err error) {
	defer func() {
		if v := recover(); v != nil {
			a, err = throttle.Admission{}, fmt.Errorf("the throttler panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return t.Throttle(ctx, c, f)
}

// firstLine leaves the stack of a panic to the log.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return sojourn.Cut(text, sojourn.MaxReason)
}

// throttle makes the admission ask a throttler after all other gates. The caller calls End.
func (a *Admission) throttle(p *pass, flight *throttle.Flight) {
	a.Pass, a.flight, a.known = p, flight, map[int64]*throttle.Candidate{}
	a.Flow.Throttle = func(c *throttle.Candidate) throttle.Admission {
		if a.Flow.State.Counting {
			return throttle.Admission{Text: "the throttler is new: what is in flight is being counted"}
		}
		if p.over == nil {
			if err := a.Describe([]Candidate{{Candidate: jobrow.Candidate{ID: int64(c.ID)}}}); err != nil {
				p.over, p.last, p.failed = err, err, p.failed+1
			} else if known := a.known[int64(c.ID)]; known != nil {
				known.Purpose, known.Weight = c.Purpose, c.Weight
				*c = *known
			}
		}
		return p.decide(c, flight)
	}
}

// Describe reads what the throttler sees of jobs, in one query. Jobs that were read before are not
// read again.
func (a *Admission) Describe(es []Candidate) error {
	var ids []int64
	for _, e := range es {
		if a.known[e.ID] == nil {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := a.Source.Describe(ids)
	maps.Copy(a.known, found)
	return err
}

// End ends the questions to the throttler, and logs its errors.
func (a *Admission) End() {
	if a.Pass != nil {
		a.Pass.end(jobrow.Time(a.now))
	}
}
