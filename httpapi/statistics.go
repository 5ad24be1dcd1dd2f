package httpapi

import (
	"context"
	"net/url"
	"strconv"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/statistics"
)

var _ statistics.Store = (*Store)(nil)

// Statistics reads rows of statistics.
func (s triageCalls) Statistics(ctx context.Context, q statistics.Query) ([]statistics.Row, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	v := url.Values{}
	for name, value := range map[string]string{"queue": q.Queue, "kind": q.Kind} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Days > 0 {
		v.Set("days", strconv.Itoa(q.Days))
	}
	for _, d := range q.By {
		v.Add("by", string(d))
	}
	if q.Histogram {
		v.Set("histogram", "true")
	}
	a, err := get[wire.StatisticsAnswer](ctx, s.transport, "/v1/stats?"+v.Encode())
	var out []statistics.Row
	for _, r := range a.Rows {
		out = append(out, r.Row)
	}
	return out, err
}
