// Package asks serves the questions of waits. The capability is the only permission needed.
package asks

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/ask"
)

// ReadIn is the request of Read. The capability is in the body, because paths are logged.
type ReadIn struct{ Body wire.AskRequest }

// Read reads the question of a capability.
func Read(ctx context.Context, s sojourn.Store, in *ReadIn) (wire.Ask, error) {
	a, ok := s.(ask.Store)
	if !ok {
		return wire.Ask{}, ask.NotFound()
	}
	found, err := a.ReadAsk(ctx, in.Body.Token)
	return wire.Ask{Status: found}, err
}
