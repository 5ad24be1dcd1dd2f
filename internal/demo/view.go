package demo

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sojourn-queue/sojourn"
)

// Screen draws snapshots over each other on a terminal of at least 100 columns and 24 lines. It
// neither hides the cursor nor switches to another screen, because the process may be killed at any
// time and could not undo that.
func Screen(w io.Writer) func(Snapshot) {
	first := true
	return func(s Snapshot) {
		var b strings.Builder
		if first {
			b.WriteString("\x1b[2J")
			first = false
		}
		b.WriteString("\x1b[H")
		for line := range strings.Lines(render(s)) {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\x1b[K\n")
		}
		b.WriteString("\x1b[J")
		io.WriteString(w, b.String()) // a terminal that is gone is no reason to stop the shop
	}
}

// Lines writes one line a second, for pipes and files.
func Lines(w io.Writer) func(Snapshot) {
	next := time.Duration(0)
	opened := false
	return func(s Snapshot) {
		if s.Page != "" && !opened {
			opened = true
			io.WriteString(w, "web page: "+s.Page+"\n")
		}
		if s.Up < next && !s.Draining {
			return
		}
		next = s.Up.Truncate(time.Second) + time.Second
		io.WriteString(w, line(s)+"\n")
	}
}

var shown = []sojourn.State{sojourn.Scheduled, sojourn.Ready, sojourn.Running, sojourn.Awaiting, sojourn.Errored,
	sojourn.Completed, sojourn.Failed, sojourn.Cancelled}

func line(s Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s enqueued %d (%.0f/s)", clock(s.Up), s.Enqueued, s.EnqueueRate)
	for _, state := range shown {
		if n := s.Counts[state]; n > 0 {
			fmt.Fprintf(&b, " %s %d", state, n)
		}
	}
	a := s.Responses
	fmt.Fprintf(&b, " | applied %d early %d duplicate %d late %d", a.Applied, a.Early, a.Duplicate, a.Late)
	for _, p := range s.Partners {
		fmt.Fprintf(&b, " | %s %d of %d", p.Broker, p.Answered, p.Jobs)
	}
	if s.Trouble != "" {
		b.WriteString(" | " + s.Trouble)
	}
	return b.String()
}

// render gives the lines of the screen.
func render(s Snapshot) string {
	var b strings.Builder
	doing := "Ctrl-C drains and checks"
	if s.Draining {
		doing = "draining ..."
	}
	fmt.Fprintf(&b, "sojourn demo  %s  up %s  seed %d  %s\n", s.Store, clock(s.Up), s.Seed, doing)
	fmt.Fprintf(&b, "%s\n", s.Path)
	if s.Page != "" {
		fmt.Fprintf(&b, "web page %s\n", s.Page)
	}
	b.WriteString("\n")
	for _, state := range shown {
		fmt.Fprintf(&b, "%10s", state)
	}
	b.WriteString("\n")
	for _, state := range shown {
		fmt.Fprintf(&b, "%10d", s.Counts[state])
	}
	b.WriteString("\n\n")
	if s.Trouble != "" {
		fmt.Fprintf(&b, "the store does not answer: %s\n\n", s.Trouble)
	}
	a, g := s.Responses, s.Gateway
	fmt.Fprintf(&b, "rates    %.1f enqueued/s   %.1f finished/s   %.1f answers/s\n", s.EnqueueRate, s.FinishRate, s.AnswerRate)
	fmt.Fprintf(&b, "times    enqueue p50 %s p99 %s   wait for a worker p50 %s p99 %s\n",
		ms(s.EnqueueMS.P50), ms(s.EnqueueMS.P99), ms(s.WaitMS.P50), ms(s.WaitMS.P99))
	fmt.Fprintf(&b, "answers  %d applied   %d early   %d duplicate   %d late\n", a.Applied, a.Early, a.Duplicate, a.Late)
	fmt.Fprintf(&b, "gateway  %d requests   %d repeated   %d on their way   %d never answered   %d errors\n",
		g.Requests, g.Repeated, g.Pending, g.Unanswered, g.Errors)
	b.WriteString(overBrokers(s.Partners))
	fmt.Fprintf(&b, "ledger   %d enqueued   %d cards charged   %d charged twice\n\n", s.Enqueued, g.Charged, g.ChargedTwice)
	for _, e := range s.Events {
		fmt.Fprintf(&b, "  %s  %s\n", e.At.Format(time.TimeOnly), cut(e.Text, 66))
	}
	b.WriteString(things(s.Path, os.Getpid()))
	return b.String()
}

// NoBrokers is what a report of a run without brokers says about them.
const NoBrokers = `none ("make demo-brokers" adds NATS and Kafka)`

// overBrokers returns the line about the responses that arrive over brokers.
func overBrokers(all []PartnerReport) string {
	if len(all) == 0 {
		return "brokers  " + NoBrokers + "\n"
	}
	text, parked := "brokers", 0
	for _, p := range all {
		text += fmt.Sprintf("  %s %d of %d %s ", p.Broker, p.Answered, p.Jobs, p.Queue)
		parked += p.Parked
	}
	return fmt.Sprintf("%s  %d unreadable\n", text, parked)
}

// things to try, in another terminal.
func things(path string, pid int) string {
	store := "--store sqlite:" + path
	return "\nTry in another terminal:\n" +
		"  sojourn " + store + " job ls --state awaiting\n" +
		"  sojourn " + store + " queue pause payments\n" +
		"  kill -9 " + strconv.Itoa(pid) + "   (then: sojourn demo --db " + path + ")\n"
}

func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

func ms(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.0f ms", v)
}

// cut keeps a text within n characters and on one line, without anything that a terminal would
// obey.
func cut(text string, n int) string {
	r := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
