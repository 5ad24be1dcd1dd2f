package queuecmd

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/parse"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// paceFlags are the settings of queue set that decide how fast jobs start, and what stops them.
type paceFlags struct {
	rate, groupRate, throttle   string
	burst, groupBurst           int64
	failures, probes            int
	breakerWithin, breakerOpens time.Duration
	reasons                     []string
}

func (f *paceFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.rate, "rate", "", "maximum start rate of the queue, such as 50/s, 10/m or 100/15m; none = no limit")
	fl.Int64Var(&f.burst, "rate-burst", 0, "starts that may follow at once after an idle time (default: the starts of one second, at least 1)")
	fl.StringVar(&f.groupRate, "group-rate", "", "like --rate, for each group")
	fl.Int64Var(&f.groupBurst, "group-rate-burst", 0, "like --rate-burst, for each group")
	fl.IntVar(&f.failures, "breaker", 0, "circuit breaker: stop starts after this many failures within --breaker-within; 0 = never")
	fl.DurationVar(&f.breakerWithin, "breaker-within", 0, "time span in which failures are counted (default 1m)")
	fl.DurationVar(&f.breakerOpens, "breaker-open", 0, "how long the breaker stays open before it starts a probe (default 30s)")
	fl.IntVar(&f.probes, "breaker-probes", 0, "probe jobs that must succeed before the breaker closes (default 1)")
	fl.StringSliceVar(&f.reasons, "breaker-reason", nil, "count only failures with these reasons, such as http_5*; replaces the list, \"\" counts all failures that the other side causes")
	fl.StringVar(&f.throttle, "throttle", "", "throttler: a `RULE` in CEL that decides which jobs start, or @FILE; none = no rule")
}

// apply copies the given flags into s.
func (f *paceFlags) apply(given func(string) bool, s *sojourn.QueueSettings) (err error) {
	if err := applyRate(given, "rate", f.rate, f.burst, &s.Rate); err != nil {
		return err
	}
	if err := applyRate(given, "group-rate", f.groupRate, f.groupBurst, &s.GroupRate); err != nil {
		return err
	}
	if err := f.applyBreaker(given, s); err != nil || !given("throttle") {
		return err
	}
	s.Throttle, err = ruleText(f.throttle)
	return err
}

// applyRate changes a rate or its burst.
func applyRate(given func(string) bool, flag, text string, burst int64, to **sojourn.Rate) error {
	if given(flag) && (text == "" || text == "none") {
		*to = nil
	} else if given(flag) {
		count, per, err := parseRate(flag, text)
		if err != nil {
			return err
		}
		r := sojourn.Rate{Count: count, Per: per}
		if *to != nil {
			r.Burst = (*to).Burst
		}
		*to = &r
	}
	if !given(flag + "-burst") {
		return nil
	}
	if *to == nil {
		return sojourn.Invalid(flag+"-burst", "the queue has no such rate; add --%s", flag)
	}
	r := **to // nobody else's value is changed
	r.Burst = burst
	*to = &r
	return nil
}

// parseRate reads a number and a time: 50/s, 10/m, 1000/h, 100/15m.
func parseRate(flag, text string) (count int64, per time.Duration, err error) {
	number, unit, ok := strings.Cut(text, "/")
	count, err = strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	unit = strings.TrimSpace(unit)
	if unit != "" && strings.Trim(unit[:1], "0123456789.") != "" {
		unit = "1" + unit
	}
	per, bad := time.ParseDuration(unit)
	if !ok || err != nil || bad != nil {
		return 0, 0, sojourn.Invalid(flag, "%.64q is not a rate; use a form such as 50/s, 10/m or 100/15m", text)
	}
	return count, per, nil
}

func (f *paceFlags) applyBreaker(given func(string) bool, s *sojourn.QueueSettings) error {
	var b sojourn.Breaker
	if given("breaker") && f.failures == 0 {
		s.Breaker = nil
	}
	if s.Breaker != nil {
		b = *s.Breaker
	}
	parse.Set(given("breaker"), &b.Failures, f.failures)
	for flag, apply := range map[string]func(){
		"breaker-within": func() { b.Within = f.breakerWithin }, "breaker-open": func() { b.Open = f.breakerOpens },
		"breaker-probes": func() { b.Probes = f.probes }, "breaker-reason": func() { b.Reasons = named(f.reasons) },
	} {
		if !given(flag) {
			continue
		}
		if b.Failures == 0 {
			return sojourn.Invalid(flag, "the queue has no breaker; add --breaker")
		}
		apply()
	}
	if b.Failures != 0 {
		s.Breaker = &b
	}
	return nil
}

// ruleText is a rule, or what stands in a file.
func ruleText(text string) (string, error) {
	if text == "none" {
		return "", nil
	}
	path, ok := strings.CutPrefix(text, "@")
	if !ok {
		return text, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", sojourn.Invalid("throttle", "%v", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// paceLines are what queue get shows of the settings, and of what the queue remembers of them.
func paceLines(q sojourn.QueueStatus, now time.Time) (lines [][2]string) {
	add := func(name, format string, args ...any) {
		lines = append(lines, [2]string{name, fmt.Sprintf(format, args...)})
	}
	s := q.Settings
	for _, r := range []struct {
		name string
		*sojourn.Rate
	}{{"rate", s.Rate}, {"group rate", s.GroupRate}} {
		if r.Rate == nil {
			continue
		}
		burst := ""
		if r.Burst > 0 {
			burst = fmt.Sprintf(", %d at once", r.Burst)
		}
		add(r.name, "%d in %v%s", r.Count, r.Per, burst)
	}
	if until := q.HeldUntil; until.After(now) {
		add("on hold until", "%s", strings.TrimSpace(terminal.Stamp(until, now)+" "+terminal.Clean(q.HoldReason)))
	}
	if b := s.Breaker; b != nil {
		counts := "all failures that the other side causes"
		if len(b.Reasons) > 0 {
			counts = strings.Join(b.Reasons, ", ")
		}
		add("breaker", "%d failures within %v; open for %v, then %s; counts %s", b.Failures, cmp.Or(b.Within, sojourn.DefaultBreakerWithin),
			cmp.Or(b.Open, sojourn.DefaultBreakerOpen), terminal.Plural(cmp.Or(b.Probes, sojourn.DefaultBreakerProbes), "probe"), counts)
		add("breaker is", "%s", cmp.Or(q.Breaker, "closed"))
	}
	if s.Throttle != "" {
		add("throttle", "%s", terminal.Clean(s.Throttle))
	}
	if q.ThrottleErrors > 0 {
		add("throttle failed", "%d times, last %s: %s", q.ThrottleErrors, terminal.Ago(q.ThrottleErrorAt, now), terminal.Clean(q.ThrottleError))
	}
	return lines
}
