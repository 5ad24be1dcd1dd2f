// Package docscmd has the command "docs".
package docscmd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/docs"
	"github.com/sojourn-queue/sojourn/internal/docsite"
)

// source has the files that the pages link to and that are not part of this program.
const source = "https://github.com/sojourn-queue/sojourn/blob/main"

// headerTime bounds the headers of a request.
const headerTime = 10 * time.Second

const help = `Serves the documentation of this version with its search, until it is interrupted, and prints the address.
With --write it writes the same pages into a folder instead: any web server can serve them, and a browser can open them from the disk.
It needs no network.`

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "docs".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

func (a *app) command() *cobra.Command {
	var addr, dir string
	cmd := &cobra.Command{Use: "docs", Short: "show the documentation of this version in a browser", Long: help, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&addr, "addr", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 takes a free one")
	fl.StringVar(&dir, "write", "", "write the pages into the folder `DIR` and end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		site, err := docsite.New(docs.Files, source)
		if err != nil {
			return err
		}
		if dir != "" {
			if err := site.Write(dir); err != nil {
				return err
			}
			return a.Printf("%s: open index.html\n", dir)
		}
		return a.serve(cmd.Context(), addr, site.Handler())
	}
	return cmd
}

// serve serves until ctx ends.
func (a *app) serve(ctx context.Context, addr string, h http.Handler) error {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTime}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := a.Printf("http://%s/\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
