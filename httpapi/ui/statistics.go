package ui

import (
	"strconv"
	"time"

	"github.com/sojourn-queue/sojourn/httpapi/ui/internal/figures"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

// Sizes of the page of statistics.
const (
	statisticsRows    = 200
	statisticsReasons = 20
)

// statisticsData is the data of the page of statistics.
type statisticsData struct {
	Days    int
	Queue   string
	Queues  []string
	Total   statistics.Row
	Rows    []statistics.Row // by queue and kind
	More    bool             // there are more rows than are shown
	Drawing []figures.Day
	Reasons []figures.Reason
}

// statisticsPage shows how many jobs there were in the last days, and how long they took.
func statisticsPage(q *request) (page, error) {
	d := statisticsData{Days: 1, Queue: q.get("queue")}
	if n, err := strconv.Atoi(q.get("days")); err == nil && (n == 7 || n == statistics.DefaultDays) {
		d.Days = n
	}
	stats := statistics.Of(q.who.client)
	query := statistics.Query{Queue: d.Queue, Days: d.Days}
	total, err := stats.Rows(q.ctx, query)
	if err != nil {
		return page{}, err
	}
	if len(total) > 0 {
		d.Total, d.Reasons = total[0], figures.Reasons(total[0], statisticsReasons)
	}
	query.By = []statistics.Dimension{statistics.ByQueue, statistics.ByKind}
	if d.Rows, err = stats.Rows(q.ctx, query); err != nil {
		return page{}, err
	}
	if d.More = len(d.Rows) > statisticsRows; d.More {
		d.Rows = d.Rows[:statisticsRows]
	}
	if d.Days > 1 {
		query.By = []statistics.Dimension{statistics.ByDay}
		days, err := stats.Rows(q.ctx, query)
		if err != nil {
			return page{}, err
		}
		d.Drawing = figures.Days(days, time.Now(), d.Days)
	}
	d.Queues = q.someQueues()
	return page{name: "statistics", title: "Statistics", nav: "overview", live: 30, data: d}, nil
}
