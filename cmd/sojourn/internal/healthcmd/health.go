// Package healthcmd has the command "health", which checks a server.
package healthcmd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "health".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

const (
	longHelp = `Checks that a server is ready, with a request to /readyz. It needs no token. It is meant for health checks of containers, which have no curl.

  sojourn health                          the server at http://127.0.0.1:7575
  sojourn health --live http://10.0.0.7:7575

The exit code is 0 if the server is ready, 5 if it is not or does not respond. The certificate of a loopback address is not verified, because
certificates name another host.`
	maxReply = 4 << 10
)

func (a *app) command() *cobra.Command {
	live, timeout := false, 3*time.Second
	cmd := &cobra.Command{Use: "health [URL]", Short: "check that a server is ready", Long: longHelp, Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVar(&live, "live", false, "check only that the process responds: /livez")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the reply")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		address := "http://127.0.0.1:7575"
		if len(args) > 0 {
			address = args[0]
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return sojourn.Invalid("url", "%.64q is not a URL of a server; use http://HOST:PORT", address)
		}
		if timeout <= 0 {
			return sojourn.Invalid("timeout", "%v is not positive", timeout)
		}
		path := "/readyz"
		if live {
			path = "/livez"
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		reply, err := get(ctx, u, path)
		if err != nil {
			return cli.Unusable(err)
		}
		return a.Printf("%s\n", reply)
	}
	return cmd
}

// get sends the request and returns the reply, an error unless its status is 200.
func get(ctx context.Context, u *url.URL, path string) (string, error) {
	transport := &http.Transport{} // without a proxy: the server is on this machine or beside it
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() || u.Hostname() == "localhost" {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // only a status is read, and no token is sent
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath(path).String(), nil)
	if err != nil {
		return "", err
	}
	reply, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return "", err
	}
	body := strings.TrimSpace(string(text))
	if reply.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s replied %s: %s", u.Redacted(), reply.Status, body)
	}
	return body, nil
}
