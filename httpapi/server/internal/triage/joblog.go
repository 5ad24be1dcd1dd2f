package triage

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/joblog"
)

// WriteLogIn is the request of WriteLog.
type WriteLogIn struct {
	ID   sojourn.ID `path:"id"`
	Body wire.NewLogLine
}

// WriteLog adds a line of an operator to a job's log. The audit log has the call without the text,
// which stands in the log of the job.
func WriteLog(ctx context.Context, s sojourn.Store, in *WriteLogIn) (sojourn.LogLine, error) {
	return joblog.StoreOf(s).WriteLog(ctx, in.ID, joblog.Line{Text: in.Body.Text, By: in.Body.By})
}
