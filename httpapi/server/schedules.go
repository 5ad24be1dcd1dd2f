package server

import (
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/schedule"
)

type setScheduleIn struct {
	Schedule string `path:"schedule"`
	Body     wire.NewSchedule
}

func setSchedule(mode schedule.Mode) func(*call, *setScheduleIn) (wire.Schedule, error) {
	return func(c *call, in *setScheduleIn) (wire.Schedule, error) {
		d := in.Body.Domain(in.Schedule)
		in.Body.Job.Args = nil
		c.detail = in.Body
		if err := c.who.may(access.VerbEnqueue, d.Job.Queue, d.Job.Kind); err != nil {
			return wire.Schedule{}, err
		}
		out, err := schedule.StoreOf(c.store).SetSchedule(c.ctx, d, mode)
		return wire.ScheduleOf(out), err
	}
}

type listSchedulesIn struct {
	Names  []string `query:"name" doc:"only these, all in one page"`
	Prefix string   `query:"prefix" doc:"only names that begin with it"`
	After  string   `query:"after" doc:"the last name of the page before"`
	Limit  int      `query:"limit" doc:"1 to 1,000; default 100"`
}

func listSchedules(c *call, in *listSchedulesIn) (wire.SchedulesAnswer, error) {
	found, err := schedule.StoreOf(c.store).Schedules(c.ctx, in.Prefix, in.After, in.Limit, in.Names...) // those that the caller may see
	return wire.SchedulesAnswer{Schedules: wire.SchedulesOf(found)}, err
}

type scheduleIn struct {
	Schedule string `path:"schedule"`
}

// changeSchedule is an operation that carries out an action. The store checks the queue.
func changeSchedule(a schedule.Action) func(*call, *scheduleIn) (wire.Schedule, error) {
	return func(c *call, in *scheduleIn) (wire.Schedule, error) {
		out, err := schedule.StoreOf(c.store).ChangeSchedule(c.ctx, in.Schedule, a)
		return wire.ScheduleOf(out), err
	}
}
