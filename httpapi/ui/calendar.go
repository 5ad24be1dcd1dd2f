package ui

import (
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/agenda"
	"github.com/sojourn-queue/sojourn/schedule"
)

// Limits of the calendar.
const (
	calendarSchedules = 300 // that are read, by name
	shownRuns         = 50
)

// calendarRow is a queue with windows, or a schedule.
type calendarRow struct {
	Queue    sojourn.QueueStatus
	Schedule schedule.Schedule
	Spans    []agenda.Span
	Open     bool      // the windows of the queue are open now
	Until    time.Time // when that changes, or the next tick; zero = not within five years
}

// calendarData is the data of the calendar.
type calendarData struct {
	Days      int
	Until     time.Time
	Queues    []calendarRow
	Schedules []calendarRow
	Runs      []agenda.Run
	More      bool // there are more schedules than are shown
}

// calendarPage shows when the windows of queues are open, and when schedules are due.
func calendarPage(q *request) (page, error) {
	d := calendarData{Days: 1}
	if q.get("days") == "7" {
		d.Days = 7
	}
	queues, _, err := q.queueList()
	if err != nil {
		return page{}, err
	}
	schedules, err := schedule.StoreOf(q.who.client.Store()).Schedules(q.ctx, "", "", calendarSchedules)
	if err != nil {
		return page{}, err
	}
	p := agenda.Period{From: time.Now().UTC(), Length: time.Duration(d.Days) * 24 * time.Hour}
	d.Until, d.More = p.From.Add(p.Length), len(schedules) == calendarSchedules
	windows := map[string]sojourn.Windows{}
	for _, one := range queues {
		if len(one.Settings.Windows) == 0 {
			continue
		}
		windows[one.Name] = one.Settings.Windows
		row := calendarRow{Queue: one}
		row.Spans, row.Open, row.Until = p.Open(one.Settings.Windows)
		if row.Until.Sub(p.From) >= sojourn.WindowHorizon {
			row.Until = time.Time{}
		}
		d.Queues = append(d.Queues, row)
	}
	for _, one := range schedules {
		row := calendarRow{Schedule: one, Spans: p.Marks(&one)}
		if len(one.Next) > 0 && !one.Paused {
			row.Until = one.Next[0]
		}
		d.Schedules = append(d.Schedules, row)
	}
	d.Runs = p.Runs(schedules, windows, shownRuns)
	return page{name: "calendar", title: "Calendar", nav: "calendar", live: 10, data: d}, nil
}
