package configcmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/jsonform"
	"github.com/sojourn-queue/sojourn/schedule"
)

// scheduleKey is the name of the tables that declare schedules: [[schedule]].
const scheduleKey = "schedule"

// declaring are the commands that declare the schedules of the file when they start.
var declaring = []string{"serve", "work"}

// fileSchedule is a table [[schedule]], with the names of the HTTP API.
type fileSchedule struct {
	Name    string           `json:"name"`
	Cron    string           `json:"cron,omitempty"`
	Zone    string           `json:"zone,omitempty"`
	Every   time.Duration    `json:"every,omitempty"`
	Offset  time.Duration    `json:"offset,omitempty"`
	Jitter  time.Duration    `json:"jitter,omitempty"`
	Start   time.Time        `json:"start,omitzero"`
	End     time.Time        `json:"end,omitzero"`
	CatchUp int              `json:"catch_up,omitempty"`
	Overlap schedule.Overlap `json:"overlap,omitempty"`
	Job     jsonform.NewJob  `json:"job"`
}

// declared is a schedule of the file.
type declared struct {
	schedule.Schedule
	place string // file:line:column
}

// shown is the schedule as a line of "config". It has a key that no setting has.
func (d *declared) shown() shownSetting {
	queue := cmp.Or(d.Job.Queue, sojourn.DefaultQueue)
	return shownSetting{Key: scheduleKey + "." + d.Name, Value: fmt.Sprintf("%s: kind %s in queue %s", d.Sentence(), d.Job.Kind, queue), Origin: d.place}
}

// schedulesOf reads the tables of schedules. places are where they begin.
func schedulesOf(tables any, places []string) (out []declared, err error) {
	list, _ := tables.([]any)
	for i, table := range list {
		if i >= len(places) {
			return nil, sojourn.Invalid("config", "write schedules as tables [[schedule]]")
		}
		wrong := func(err error) error {
			if e, ok := errors.AsType[*sojourn.Error](err); ok {
				return sojourn.Invalid("config", "%s: %s: %s", places[i], e.Field, e.Message)
			}
			return sojourn.Invalid("config", "%s: %.300s", places[i], err)
		}
		b, err := json.Marshal(table)
		if err != nil {
			return nil, wrong(err)
		}
		var f fileSchedule
		if err := jsonform.ReadStrict(b, &f); err != nil {
			return nil, wrong(err)
		}
		job := f.Job.Job()
		d := schedule.Schedule{Name: f.Name, Cron: f.Cron, Zone: f.Zone, Every: f.Every, Offset: f.Offset, Jitter: f.Jitter, Start: f.Start, End: f.End,
			CatchUp: f.CatchUp, Overlap: f.Overlap, Job: &job}
		if err := d.Validate(sojourn.MaxMaxBytes); err != nil {
			return nil, wrong(err)
		}
		if slices.ContainsFunc(out, func(o declared) bool { return o.Name == d.Name }) {
			return nil, wrong(sojourn.Invalid("name", "%s has a table before; each schedule has one", d.Name))
		}
		out = append(out, declared{d, places[i]})
	}
	return out, nil
}
