package httpapi

import (
	"context"
	"net/http"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/joblog"
)

var _ joblog.Store = (*Store)(nil)

// WriteLog adds a line of an operator to the log of a job.
func (s triageCalls) WriteLog(ctx context.Context, id sojourn.ID, l joblog.Line) (out sojourn.LogLine, err error) {
	if err := l.Validate(); err != nil {
		return out, err
	}
	err = s.call(ctx, request{method: http.MethodPost, path: jobPath(id, "/log"), in: wire.NewLogLine{Text: l.Text, By: l.By}, out: &out, safety: unsafe})
	return out, err
}
