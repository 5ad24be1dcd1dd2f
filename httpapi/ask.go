package httpapi

import (
	"context"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/ask"
)

var _ ask.Store = (*Store)(nil)

// ReadAsk reads the question of a capability.
func (s *inboxCalls) ReadAsk(ctx context.Context, token string) (ask.Status, error) {
	a, err := post(ctx, s.transport, "/v1/responses/ask", wire.AskRequest{Token: token}, looks, 0, func(a wire.Ask) bool { return a.State != "" })
	return a.Status, err
}
