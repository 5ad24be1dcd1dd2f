// Package webpage serves the web page beside the HTTP API, for "serve" and "demo".
package webpage

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
	"github.com/sojourn-queue/sojourn/httpapi/askpage"
	"github.com/sojourn-queue/sojourn/httpapi/server"
	"github.com/sojourn-queue/sojourn/httpapi/ui"
)

// Path is where the web page is.
const Path = "/ui/"

// Beside serves the web page at Path, the pages of questions for people below askpage.Path, and
// everything else with the API, through which the web page does everything. A browser that opens
// the root is led to the web page. The page of a question needs no access token: its link is one.
func Beside(api *server.Server, c *sojourn.Client, o server.Options, log *slog.Logger) http.Handler {
	page := http.StripPrefix(strings.TrimSuffix(Path, "/"), ui.New(c, ui.Options{API: api, SignIn: !o.Open, AnyHost: o.AnyHost, Logger: log}))
	questions := askpage.New(c, askpage.Options{Logger: log})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, askpage.Path):
			questions.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, Path):
			page.ServeHTTP(w, r)
		case r.URL.Path+"/" == Path, r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, Path, http.StatusSeeOther)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// Serve serves the page and the API of a store on loopback until the function that it returns is
// called. If another program has the address, it takes a free port. People sign in if the store has
// access tokens.
func Serve(ctx context.Context, c *sojourn.Client, addr string) (url string, end func(), err error) {
	o := server.Options{Open: true}
	if keeper, keeps := c.Store().(access.Keeper); keeps {
		tokens, err := keeper.AccessTokens(ctx)
		if err != nil {
			return "", nil, err
		}
		o.Open = len(tokens) == 0
	}
	api, err := server.New(ctx, driver.Of(c), o)
	if err != nil {
		return "", nil, err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		if l, err = listen.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return "", nil, err
		}
	}
	h := api.HTTP(0)
	h.Handler = Beside(api, c, o, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(l)
	}()
	return "http://" + l.Addr().String() + Path, func() {
		api.Drain()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if errors.Is(h.Shutdown(grace), context.DeadlineExceeded) {
			_ = h.Close()
		}
		<-done
	}, nil
}
