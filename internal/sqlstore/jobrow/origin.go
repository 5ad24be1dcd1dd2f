package jobrow

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-queue/sojourn"
)

// origin is what has made a job, as stored in JSON; most jobs have none.
type origin struct {
	Schedule string `json:"schedule,omitempty"`
	Tick     int64  `json:"tick,omitempty"` // its nominal time
	Workflow string `json:"workflow,omitempty"`
	Member   string `json:"member,omitempty"` // empty: a callback of the workflow
}

// OriginOf is the text of the origin of a job of a schedule or a workflow.
func OriginOf(j *sojourn.Job) (string, error) {
	o := origin{Schedule: j.Schedule, Workflow: j.Workflow, Member: j.Member}
	if j.Schedule != "" {
		o.Tick = j.ScheduledFor.UnixMicro()
	}
	return JSONText(o)
}

// SetOrigin decodes an origin into fields of j.
func SetOrigin(j *sojourn.Job, text string) error {
	if text == "" {
		return nil
	}
	var o origin
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("origin of job %d: %w", j.ID, err)
	}
	j.Schedule, j.Workflow, j.Member = o.Schedule, o.Workflow, o.Member
	if o.Tick != 0 {
		j.ScheduledFor = Time(o.Tick)
	}
	return nil
}
