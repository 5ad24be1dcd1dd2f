// Package workflows has the cases about named groups of jobs.
package workflows

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/workflow"
)

// Trials are all cases of the package.
func Trials() []kit.Trial {
	return slices.Concat(startTrials, endTrials, operateTrials, raceTrials)
}

// callbacks is the kind of callback jobs.
const callbacks = "callback"

// calls are the calls about workflows of a scene.
func calls(s *kit.Scene) workflow.Workflows {
	s.Helper()
	if _, keeps := s.Store.(workflow.Store); !keeps {
		s.Skip("this store keeps no workflows")
	}
	return workflow.Of(sojourn.NewClient(s.Store))
}

// job is the job of a member. It fails with its first error.
func job(options ...sojourn.Option) *sojourn.Job {
	return sojourn.NewJob(kit.Kind, []byte(`{}`), append([]sojourn.Option{sojourn.MaxAttempts(1)}, options...)...)
}

func callback(name string) *sojourn.Job {
	return sojourn.NewJob(callbacks, []byte(`"`+name+`"`))
}

// order is a workflow in which ship waits for charge and pack.
func order(name string) *workflow.Workflow {
	return workflow.New(name).Add("charge", job()).Add("pack", job()).Add("ship", job(), workflow.After("charge", "pack")).
		OnEnd(callback("end")).OnFirstFailure(callback("failure"))
}

func start(s *kit.Scene, w *workflow.Workflow) workflow.Status {
	s.Helper()
	out, err := calls(s).Start(s.Ctx, w)
	s.Must(err, "Start of workflow %s", w.Name)
	return out
}

func get(s *kit.Scene, name string) workflow.Status {
	s.Helper()
	out, err := calls(s).Get(s.Ctx, name)
	s.Must(err, "Get of workflow %s", name)
	return out
}

// is wants the state of a workflow, its generation, and the numbers of its members by state:
// "running 1: blocked 1, ready 2".
func is(s *kit.Scene, name, want string) workflow.Status {
	s.Helper()
	s.Sweep()
	w := get(s, name)
	var counts []string
	total := int64(0)
	for _, state := range slices.Sorted(maps.Keys(w.Counts)) {
		counts = append(counts, fmt.Sprintf("%s %d", state, w.Counts[state]))
		total += w.Counts[state]
	}
	kit.Same(s, "workflow "+name, fmt.Sprintf("%s %d: %s", w.State, w.Generation, strings.Join(counts, ", ")), want)
	kit.Same(s, "members that are counted", total, w.Total)
	return w
}

// member is the job of a member.
func member(s *kit.Scene, flow, name string) sojourn.Job {
	s.Helper()
	for m, err := range calls(s).Members(s.Ctx, flow) {
		s.Must(err, "Members")
		if m.Name == name {
			return s.Get(m.Job)
		}
	}
	s.Fatalf("workflow %s has no member %s", flow, name)
	return sojourn.Job{}
}

// end claims the jobs that are ready and ends them: those of members in fails fail.
func end(s *kit.Scene, fails ...string) (ended []string) {
	s.Helper()
	for _, c := range s.ClaimMany(kit.UpTo(1000)) {
		o, want := kit.Completed(c), sojourn.Completed
		if slices.Contains(fails, c.Job.Member) {
			o, want = kit.Abort(c), sojourn.Failed
		}
		s.Finish(o, want)
		ended = append(ended, c.Job.Member)
	}
	slices.Sort(ended)
	return ended
}

// called claims the callbacks that were enqueued, completes them, and wants these, with the state
// of the whole at its end, and the generation: "end failed 1", "failure 1".
func called(s *kit.Scene, want ...string) {
	s.Helper()
	s.Sweep()
	got := []string{}
	for _, c := range s.ClaimMany(kit.Kinds(callbacks), kit.UpTo(100)) {
		m := c.Job.Meta
		if c.Job.Workflow != m["workflow"] || c.Job.Member != "" {
			s.Errorf("the callback has the workflow %q and the member %q, its meta %v", c.Job.Workflow, c.Job.Member, m)
		}
		what := strings.Trim(string(c.Job.Args), `"`)
		if what == "end" {
			what += " " + m["workflow_state"]
		}
		got = append(got, what+" "+m["workflow_generation"])
		s.Finish(kit.Completed(c), sojourn.Completed)
	}
	slices.Sort(got)
	kit.Same(s, "callbacks", strings.Join(got, "; "), strings.Join(want, "; "))
}

// jobsOf counts the jobs of a workflow.
func jobsOf(s *kit.Scene, name string) (n int) {
	s.Helper()
	for _, j := range find(s) {
		if j.Workflow == name {
			n++
		}
	}
	return n
}

func find(s *kit.Scene) []sojourn.Job {
	s.Helper()
	jobs, err := s.Store.Find(s.Ctx, sojourn.Filter{Limit: sojourn.MaxFind})
	s.Must(err, "Find")
	return jobs
}
