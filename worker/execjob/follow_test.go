//go:build unix

package execjob_test

import (
	"strings"
	"testing"

	"github.com/sojourn-queue/sojourn"
)

// A program completes with next jobs, goes on with a next stage, fails with details, and reads the
// jobs that its job has waited for. spec:D2 spec:W7
func TestFollow(t *testing.T) {
	for name, one := range map[string]struct {
		script string
		state  sojourn.State
		reason string
		next   int
		stage  int32
		result string
	}{
		"next": {`echo '[{"kind":"ship","key":"s-1","args":{"n":1}},{"kind":"ship","delay":"1h","depends_on":[{"jobs":['$SOJOURN_ID']}]}]' >"$SOJOURN_NEXT"; echo 7 >"$SOJOURN_RESULT"`,
			sojourn.Completed, "", 2, 0, "7\n"},
		"advance":  {`echo '"packed"' >"$SOJOURN_CHECKPOINT"; echo '{"queue":"other","delay":"1h"}' >"$SOJOURN_ADVANCE"`, sojourn.Scheduled, "", 0, 1, ""},
		"stage":    {`[ "$SOJOURN_STAGE" = 0 ] && grep -q '"epoch":1' || exit 3`, sojourn.Completed, "", 0, 0, ""},
		"both":     {`echo '[{"kind":"ship"}]' >"$SOJOURN_NEXT"; echo '{}' >"$SOJOURN_ADVANCE"`, sojourn.Scheduled, "exec_output", 0, 0, ""},
		"no list":  {`echo '{"kind":"ship"}' >"$SOJOURN_NEXT"`, sojourn.Scheduled, "exec_output", 0, 0, ""},
		"misspelt": {`echo '[{"kynd":"ship"}]' >"$SOJOURN_NEXT"`, sojourn.Scheduled, "exec_output", 0, 0, ""},
		"bad kind": {`echo '[{"kind":"no kind"}]' >"$SOJOURN_NEXT"`, sojourn.Scheduled, "exec_output", 0, 0, ""},
		"ignored":  {`echo '[{"kind":"ship"}]' >"$SOJOURN_NEXT"; exit 75`, sojourn.Scheduled, "", 0, 0, ""},
		"abort":    {`echo '{"left":0}' >"$SOJOURN_RESULT"; exit 65`, sojourn.Failed, "exit_65", 0, 0, `{"left":0}` + "\n"},
		"unknown":  {`echo '[{"kind":"ship","depends_on":[{"jobs":[987654]}]}]' >"$SOJOURN_NEXT"`, sojourn.Scheduled, "unknown_dependency", 0, 0, ""},
	} {
		h := handled(t, script(t, one.script))
		id := h.Enqueue(kind.New([]byte("{}")))
		h.Step()
		job := h.Job(id)
		next, err := h.Client.Store().Find(t.Context(), sojourn.Filter{Kind: "ship"})
		if err != nil || job.State != one.state || job.Reason != one.reason || job.Stage != one.stage || len(next) != one.next || string(job.Result) != one.result {
			t.Errorf("%s: the job is %v in stage %d, reason %q, error %q, result %q; %d jobs follow, %v", name, job.State, job.Stage, job.Reason, job.Error, job.Result, len(next), err)
		}
		if name == "advance" && strings.TrimSpace(string(job.Checkpoint)) != `"packed"` {
			t.Errorf("the checkpoint is %s", job.Checkpoint)
		}
	}
}

func TestParents(t *testing.T) {
	o := script(t, `if [ -n "$SOJOURN_PARENTS" ]; then cp "$SOJOURN_PARENTS" "$SOJOURN_RESULT"; else echo 7 >"$SOJOURN_RESULT"; fi`)
	o.Parents = true
	h := handled(t, o)
	first := h.Enqueue(sojourn.NewJob("k", []byte("{}"), sojourn.Key("first")))
	second := h.Enqueue(sojourn.NewJob("k", []byte("{}"), sojourn.DependsOn(first)))
	h.RunUntilIdle()
	if job := h.Job(second); !strings.Contains(string(job.Result), `"key":"first","state":"completed","result":7`) {
		t.Errorf("the program got the parents %s, and the job is %v: %s", job.Result, job.State, job.Error)
	}
}

// A program gets the trace context of its job as OpenTelemetry reads it, and its follow-up jobs
// inherit it. Any other value cannot break the environment.
func TestTraceContext(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	h := handled(t, script(t, `echo "$TRACEPARENT $TRACESTATE" >"$SOJOURN_RESULT"; echo '[{"kind":"ship","key":"s-1"}]' >"$SOJOURN_NEXT"`))
	id := h.Enqueue(kind.New([]byte("{}"), sojourn.Meta(sojourn.MetaTraceparent, trace), sojourn.Meta(sojourn.MetaTracestate, "a=1")))
	h.Step()
	if job := h.Job(id); string(job.Result) != trace+" a=1\n" {
		t.Errorf("the program got %q, and the job is %v: %s", job.Result, job.State, job.Error)
	}
	if next := h.RequireState("s-1", sojourn.Ready); next.Meta[sojourn.MetaTraceparent] != trace {
		t.Errorf("the next job has the meta %v", next.Meta)
	}
	odd := h.Enqueue(kind.New([]byte("{}"), sojourn.Meta(sojourn.MetaTraceparent, trace+"\x00")))
	h.Step()
	if job := h.Job(odd); job.State != sojourn.Completed || string(job.Result) != " \n" {
		t.Errorf("the program got %q, and the job is %v: %s", job.Result, job.State, job.Error)
	}
}
