package demo

import (
	"context"
	"log/slog"
	"strings"
)

// withoutFailures drops what a worker logs about failed attempts: the demo makes them fail, and
// shows how many.
type withoutFailures struct{ slog.Handler }

func (h withoutFailures) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "sojourn: a job failed") || strings.HasPrefix(r.Message, "sojourn: an attempt failed") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutFailures) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutFailures{h.Handler.WithAttrs(attrs)}
}

func (h withoutFailures) WithGroup(name string) slog.Handler {
	return withoutFailures{h.Handler.WithGroup(name)}
}
