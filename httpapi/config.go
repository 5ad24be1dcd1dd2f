package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sojourn-queue/sojourn/httpapi/internal/wire"
	"github.com/sojourn-queue/sojourn/store/config"
)

var _ config.Store = (*Store)(nil)

// Config lists the settings of the store.
func (s triageCalls) Config(ctx context.Context) ([]config.Setting, error) {
	a, err := get[wire.ConfigAnswer](ctx, s.transport, "/v1/config")
	return a.Settings, err
}

// SetConfig sets a setting of the store.
func (s triageCalls) SetConfig(ctx context.Context, name, value, by string) (out config.Setting, err error) {
	if _, err := config.Parse(name, value); err != nil {
		return out, err
	}
	err = s.call(ctx, request{method: http.MethodPut, path: "/v1/config/" + url.PathEscape(name), in: wire.ConfigValue{Value: value, By: by}, out: &out, safety: safe})
	return out, err
}

// UnsetConfig removes what was set.
func (s triageCalls) UnsetConfig(ctx context.Context, name string) error {
	if err := config.ValidName(name); err != nil {
		return err
	}
	return s.call(ctx, request{method: http.MethodDelete, path: "/v1/config/" + url.PathEscape(name), safety: safe})
}
