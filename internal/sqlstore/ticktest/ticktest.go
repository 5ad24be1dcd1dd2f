// Package ticktest shows that every tick of a schedule makes one job, whatever happens to the
// processes and their clocks: five processes on one database, of which some are killed, over the
// clock changes of all zones, against the oracle of crontest (inv:E1, inv:E3).
package ticktest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/internal/calendar"
	"github.com/sojourn-queue/sojourn/internal/cron/crontest"
	"github.com/sojourn-queue/sojourn/internal/proctest"
	"github.com/sojourn-queue/sojourn/schedule"
)

// Node is what a process of the test does: for each line of its input, a time in microseconds, it
// sets its clock to it, sweeps, and prints "ok". open opens the store with a clock.
func Node(in io.Reader, out io.Writer, open func(now func() time.Time) (*sojourn.Client, error)) error {
	var now atomic.Int64
	var c *sojourn.Client
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var us int64
		if _, err := fmt.Sscan(lines.Text(), &us); err != nil {
			return err
		}
		now.Store(us)
		if c == nil {
			var err error
			if c, err = open(func() time.Time { return time.UnixMicro(now.Load()) }); err != nil {
				return err
			}
		}
		if _, err := driver.Of(c).Sweep(context.Background(), 1000); err != nil {
			return err
		}
		fmt.Fprintln(out, "ok")
	}
	if c == nil {
		return nil
	}
	return c.Close()
}

// Scale says how much of the space a run covers.
type Scale struct {
	Zones  []string // nil: all
	Years  []int    // nil: all from 2000 to 2037
	Cron   int      // expressions a clock change, of those of crontest.Around
	Kills  int      // about so many
	Report bool     // it logs its progress
}

// run is the state of one test.
type run struct {
	*testing.T
	dice  *rand.Rand
	start func() *exec.Cmd
	nodes [5]*node
	kills int
	now   time.Time // of the right clock
	owner *sojourn.Client
	last  string // the id of the job up to which the jobs were compared
}

// node is a running process.
type node struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	error *strings.Builder
	skew  time.Duration // its clock minus the right one
}

// change is a clock change of a zone.
type change struct {
	zone *time.Location
	at   time.Time
}

// Run runs the test. start makes the command of a node, open a store with a clock.
func Run(t *testing.T, scale Scale, start func() *exec.Cmd, open func(now func() time.Time) (*sojourn.Client, error)) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := &run{T: t, dice: rand.New(rand.NewPCG(seed, 1)), start: start}
	clusters := r.clusters(scale)
	r.now = clusters[0][0].at.Add(-before - time.Hour) // no clock step before the first schedules
	var err error
	if r.owner, err = open(func() time.Time { return r.now }); err != nil {
		t.Fatal(err)
	}
	for i := range r.nodes {
		r.nodes[i] = r.begin()
	}
	steps, changes, ticks := 0, 0, 0
	for _, c := range clusters {
		steps += int(c[len(c)-1].at.Sub(c[0].at)+before+after) / int(meanStep)
	}
	for i, c := range clusters {
		changes += len(c)
		ticks += r.cluster(c, scale.Cron, float64(scale.Kills)/float64(steps))
		if t.Failed() {
			break
		}
		if scale.Report && i%200 == 0 {
			t.Logf("%s: %d changes, %d ticks, %d kills", r.now.Format(time.DateOnly), changes, ticks, r.kills)
		}
	}
	for _, n := range r.nodes {
		if err := n.end(); err != nil {
			t.Error(err)
		}
	}
	found, err := r.owner.Store().(driver.Checker).Check(context.Background())
	if err != nil || len(found) > 0 {
		t.Errorf("invariants of the store: %v, %v", found, err)
	}
	if err := r.owner.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("tz %s: %d clock changes, %d ticks, %d kills of five processes: each tick has one job", calendar.TZVersion, changes, ticks, r.kills)
	if scale.Zones == nil && scale.Years == nil && changes < 10_000 && !t.Failed() {
		t.Errorf("only %d changes", changes)
	}
}

const (
	before   = 3 * time.Hour // of the first change of a cluster, when its schedules are set
	after    = 4 * time.Hour // of the last one, when they end
	meanStep = 25 * time.Minute
	maxTicks = 60      // of an expression in a cluster
	warm     = 26 * 60 // minutes that the oracle reads before, see crontest
)

// clusters lists the clock changes in order, divided where nothing happens for a while.
func (r *run) clusters(scale Scale) (out [][]change) {
	names := scale.Zones
	if names == nil {
		var err error
		if names, err = calendar.Zones(); err != nil {
			r.Fatal(err)
		}
	}
	var all []change
	for _, name := range names {
		z, err := calendar.Zone(name)
		if err != nil {
			r.Fatal(err)
		}
		for _, at := range crontest.Transitions(z) {
			if scale.Years == nil || slices.Contains(scale.Years, at.UTC().Year()) {
				all = append(all, change{z, at})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return a.at.Compare(b.at) })
	for i, c := range all {
		if i == 0 || c.at.Sub(all[i-1].at) > before+after+time.Hour {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c)
	}
	if len(out) == 0 {
		r.Fatal("no clock changes")
	}
	return out
}

// begin starts a node, whose clock may be wrong.
func (r *run) begin() *node {
	n := &node{cmd: r.start(), error: &strings.Builder{}}
	n.cmd.Stderr = n.error
	var err1, err2 error
	n.in, err1 = n.cmd.StdinPipe()
	out, err2 := n.cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		r.Fatal(err1, err2)
	}
	n.out = bufio.NewReader(out)
	if err := proctest.Start(n.cmd); err != nil {
		r.Fatal(err)
	}
	r.skew(n)
	return n
}

// skew sets a node's clock: half of the time right, else up to 45 minutes behind or 20 ahead.
func (r *run) skew(n *node) {
	if n.skew = 0; r.dice.IntN(2) == 0 {
		n.skew = time.Duration(r.dice.IntN(65)-45) * time.Minute
	}
}

// end closes the input of a node, and waits for it.
func (n *node) end() error {
	_ = n.in.Close()
	if err := n.cmd.Wait(); err != nil {
		return fmt.Errorf("a node: %w: %s", err, n.error)
	}
	return nil
}

// step lets some nodes sweep at the same time, and kills one of them in the middle with a
// probability.
func (r *run) step(kill float64) {
	var some []*node
	for _, i := range r.dice.Perm(len(r.nodes))[:1+r.dice.IntN(len(r.nodes))] {
		if n := r.nodes[i]; r.dice.IntN(20) == 0 {
			r.skew(n)
		}
		some = append(some, r.nodes[i])
	}
	for _, n := range some {
		if _, err := fmt.Fprintln(n.in, r.now.Add(n.skew).UnixMicro()); err != nil {
			r.Fatalf("%v: %s", err, n.error)
		}
	}
	if r.dice.Float64() < kill {
		r.kills++
		time.Sleep(time.Duration(r.dice.IntN(3000)) * time.Microsecond) // a random instant
		_ = some[0].cmd.Process.Kill()
		_ = some[0].cmd.Wait()
		r.nodes[slices.Index(r.nodes[:], some[0])] = r.begin()
		some = some[1:]
	}
	for _, n := range some {
		if text, err := n.out.ReadString('\n'); err != nil || text != "ok\n" {
			r.Fatalf("a node answered %q, %v: %s", text, err, n.error)
		}
	}
}

// cluster goes through the time around clock changes, and returns the number of ticks.
func (r *run) cluster(cs []change, expressions int, kill float64) int {
	from, to := cs[0].at.Add(-before).Truncate(time.Minute), cs[len(cs)-1].at.Add(after).Truncate(time.Minute)
	r.now = from.Add(-time.Minute)
	ctx, schedules, want := context.Background(), schedule.Of(r.owner), map[string][]time.Time{}
	for i, c := range cs {
		w := crontest.Walk(c.zone, from.Add(-warm*time.Minute), warm+int(to.Sub(from)/time.Minute)+1)
		all := crontest.Around(c.at)
		n := 0
		for _, k := range r.dice.Perm(len(all)) {
			due := w.Ticks(all[k], warm)
			if n == expressions || len(due) > maxTicks {
				continue
			}
			d := schedule.Schedule{Name: fmt.Sprintf("s%d.%d", i, n), Cron: all[k].String(), Zone: c.zone.String(), Start: from, End: to,
				CatchUp: schedule.MaxCatchUp, Job: sojourn.NewJob("tick", nil)}
			if len(due) > 0 {
				for _, m := range due {
					want[d.Name] = append(want[d.Name], time.Unix((w.From+int64(m))*60, 0).UTC())
				}
				if _, err := schedules.Set(ctx, d); err != nil {
					r.Fatalf("%s in %s: %v", d.Cron, d.Zone, err)
				}
				n++
			}
		}
	}
	for r.now.Before(to) {
		r.now = r.now.Add(time.Duration(r.dice.Int64N(2 * int64(meanStep))))
		r.step(kill)
	}
	r.now = to.Add(time.Hour)
	for swept := true; swept; {
		s, err := driver.Of(r.owner).Sweep(ctx, 1000)
		if err != nil {
			r.Fatal(err)
		}
		swept = s.Ticks > 0
	}
	ticks := r.compare(want, fmt.Sprintf("the changes from %s", cs[0].at))
	for name := range want {
		if err := schedules.Delete(ctx, name); err != nil {
			r.Fatal(err)
		}
	}
	return ticks
}

// compare compares the jobs that were made since the last time with the ticks of the oracle.
func (r *run) compare(want map[string][]time.Time, where string) (ticks int) {
	made := map[string]map[time.Time]int{}
	for {
		jobs, err := r.owner.Store().Find(context.Background(), sojourn.Filter{After: r.last, Limit: sojourn.MaxFind})
		if err != nil {
			r.Fatal(err)
		}
		for _, j := range jobs {
			if made[j.Schedule] == nil {
				made[j.Schedule] = map[time.Time]int{}
			}
			made[j.Schedule][j.ScheduledFor.UTC()]++
			r.last = j.ID.String()
		}
		if len(jobs) < sojourn.MaxFind {
			break
		}
	}
	for name, due := range want {
		for _, tick := range due {
			ticks++
			if n := made[name][tick]; n != 1 {
				r.Errorf("%s: the tick of %s at %s has %d jobs", where, name, tick, n)
			}
		}
		if len(made[name]) != len(due) {
			r.Errorf("%s: %d ticks of %s have jobs, want %d", where, len(made[name]), name, len(due))
		}
	}
	return ticks
}
