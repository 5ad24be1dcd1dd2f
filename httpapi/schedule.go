package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/schedule"
)

var _ schedule.Store = (*Store)(nil)

func schedulePath(name, part string) string { return "/v1/schedules/" + url.PathEscape(name) + part }

// SetSchedule stores a schedule, or only tests it.
func (s *Store) SetSchedule(ctx context.Context, d schedule.Schedule, mode schedule.Mode) (schedule.Schedule, error) {
	if err := d.Validate(sojourn.MaxMaxBytes); err != nil {
		return schedule.Schedule{}, err
	}
	var out wire.Schedule
	r := request{method: http.MethodPut, path: schedulePath(d.Name, ""), in: wire.NewScheduleOf(&d), out: &out, safety: safe}
	switch mode {
	case schedule.ModeDeclare:
		r.path = schedulePath(d.Name, "/declared")
	case schedule.ModeTest:
		r.method, r.path = http.MethodPost, schedulePath(d.Name, "/test")
	}
	err := s.call(ctx, r)
	return out.Domain(), err
}

// Schedules lists schedules.
func (s *Store) Schedules(ctx context.Context, prefix, after string, limit int, names ...string) ([]schedule.Schedule, error) {
	q := url.Values{}
	if len(names) > 0 {
		q["name"] = names
	}
	for name, v := range map[string]string{"prefix": prefix, "after": after} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	a, err := get[wire.SchedulesAnswer](ctx, s.transport, "/v1/schedules?"+q.Encode())
	var out []schedule.Schedule
	for _, d := range a.Schedules {
		out = append(out, d.Domain())
	}
	return out, err
}

// ChangeSchedule pauses, resumes, runs or deletes a schedule.
func (s *Store) ChangeSchedule(ctx context.Context, name string, a schedule.Action) (schedule.Schedule, error) {
	var out wire.Schedule
	r := request{method: http.MethodPost, path: schedulePath(name, "/"+string(a)), out: &out, safety: safe}
	switch a {
	case schedule.ActionRun:
		r.safety = unsafe // each call makes a job
	case schedule.ActionDelete:
		r.method, r.path, r.safety = http.MethodDelete, schedulePath(name, ""), unsafe
	}
	err := s.call(ctx, r)
	return out.Domain(), err
}
