package jobrow

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-queue/sojourn"
)

// origin is what has made a job, as stored in JSON; most jobs have none.
type origin struct {
	Schedule string `json:"schedule"`
	Tick     int64  `json:"tick"` // its nominal time
}

// OriginOf is the text of the origin of a schedule's job.
func OriginOf(j *sojourn.Job) (string, error) {
	return JSONText(origin{j.Schedule, j.ScheduledFor.UnixMicro()})
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
	j.Schedule, j.ScheduledFor = o.Schedule, Time(o.Tick)
	return nil
}
