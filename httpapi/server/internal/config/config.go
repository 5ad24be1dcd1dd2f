// Package config serves the settings of the store. The store checks the grants.
package config

import (
	"context"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/config"
)

// List lists the settings.
func List(ctx context.Context, s sojourn.Store, _ *struct{}) (wire.ConfigAnswer, error) {
	all, err := config.StoreOf(s).Config(ctx)
	return wire.ConfigAnswer{Settings: append([]config.Setting{}, all...)}, err
}

// SetIn is the request of Set.
type SetIn struct {
	Setting string `path:"setting"`
	Body    wire.ConfigValue
}

// Detail is what the audit log has of the request: not the value of a free setting, which may be a
// secret.
func (in *SetIn) Detail() any {
	if config.Default(in.Setting) == "" {
		return nil
	}
	return in.Body
}

// Set sets a setting.
func Set(ctx context.Context, s sojourn.Store, in *SetIn) (config.Setting, error) {
	return config.StoreOf(s).SetConfig(ctx, in.Setting, in.Body.Value, in.Body.By)
}

// UnsetIn is the request of Unset.
type UnsetIn struct {
	Setting string `path:"setting"`
}

// Unset removes what was set.
func Unset(ctx context.Context, s sojourn.Store, in *UnsetIn) (wire.Empty, error) {
	return wire.Empty{}, config.StoreOf(s).UnsetConfig(ctx, in.Setting)
}
