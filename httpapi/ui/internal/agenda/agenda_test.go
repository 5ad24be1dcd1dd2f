package agenda

import (
	"fmt"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/schedule"
)

func at(hour int) time.Time { return time.Date(2026, 3, 2, hour, 0, 0, 0, time.UTC) }

func day(hour int) Period { return Period{From: at(hour), Length: 24 * time.Hour} }

func windows(t *testing.T, texts ...string) (all sojourn.Windows) {
	t.Helper()
	for _, text := range texts {
		w, err := sojourn.ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		from    int
		windows []string
		want    string
	}{
		{6, []string{"08:00-10:00"}, "[{83 83}] false 08"},
		{9, []string{"08:00-10:00"}, "[{0 41} {958 42}] true 10"},
		{6, []string{"08:00-10:00", "12:00-24:00"}, "[{83 83} {250 500}] false 08"},
		{6, []string{"tue 08:00-10:00"}, "[] false 08"}, // the day after this Monday, in more than 24 hours
	} {
		spans, open, until := day(c.from).Open(windows(t, c.windows...))
		if got := fmt.Sprint(spans, open, until.Format(" 15")); got != c.want {
			t.Errorf("%v from %d: %s, want %s", c.windows, c.from, got, c.want)
		}
	}
}

func TestRuns(t *testing.T) {
	job := func(queue string) *sojourn.Job { return sojourn.NewJob("report", nil, sojourn.Queue(queue)) }
	all := []schedule.Schedule{{Name: "daily", Cron: "0 7 * * *", Job: job("night")}, {Name: "hourly", Every: time.Hour, Job: job("any")}, {Name: "paused", Every: time.Minute, Paused: true, Job: job("any")},
		{Name: "second", Every: time.Second, Start: at(8), Job: job("any")}}
	runs := day(6).Runs(all, map[string]sojourn.Windows{"night": windows(t, "22:00-23:00")}, 4)
	got := ""
	for _, r := range runs {
		got += r.At.Format("15:04:05 ") + r.Schedule.Name
		if !r.Opens.IsZero() {
			got += r.Opens.Format(" opens 15")
		}
		got += "; "
	}
	if want := "07:00:00 daily opens 22; 07:00:00 hourly; 08:00:00 hourly; 08:00:00 second; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i, want := range []int{1, 24, 0, 1} {
		if marks := day(6).Marks(&all[i]); len(marks) != want {
			t.Errorf("%s: %d marks, want %d: %v", all[i].Name, len(marks), want, marks)
		}
	}
}
