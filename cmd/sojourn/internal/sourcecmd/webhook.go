package sourcecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/monitor"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/httpapi/askpage"
	"github.com/sojourn-queue/sojourn/source/sourcefile"
	"github.com/sojourn-queue/sojourn/source/webhook"
)

const webhookHelp = `Receives responses over HTTP on a separate port: signed webhooks of the senders in a file of sources, and requests to response links.
Brokers of the file are left to "sojourn source run", which runs brokers and webhooks together.

  [[source]]
  name = "bank"                                   # POST /webhook/bank
  kind = '"charge_card"'                          # rules in CEL
  key  = 'body.order'

  [source.webhook]
  signature = "standard"                          # standard, github, stripe, or bearer
  secrets   = ["BANK_SECRET", "BANK_SECRET_OLD"]  # environment variables; all but the first may be empty
  kinds     = ["charge_card"]                     # kinds that it may answer; "*" is all

With the signature bearer and without rules, the sender names kind and key in the path: POST /respond/{kind}/{key}.
Without FILE it accepts only response links: POST /respond/{token}.`

// webhookFlags are the flags of webhook.
type webhookFlags struct {
	listen, cert, key string
	behindTLS, check  bool
	silent            bool // print no line for each request
	o                 webhook.Options
	log               monitor.Log
	metrics           monitor.Metrics
}

func (a *app) webhookCommand() *cobra.Command {
	var f webhookFlags
	cmd := &cobra.Command{Use: "webhook [FILE]", Short: "receive responses over HTTP", Long: webhookHelp, Args: cobra.MaximumNArgs(1)}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&f.check, "check", false, "only check the file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			list, err := a.load(args[0])
			if err == nil {
				f.o.Endpoints, err = endpoints(list)
			}
			if err != nil {
				return err
			}
			if len(f.o.Endpoints) == 0 {
				return sojourn.Invalid("file", "%s has no webhook; give a [[source]] the table webhook", args[0])
			}
		}
		if err := f.validate(); err != nil {
			return err
		}
		if f.check {
			return a.Printf("%s\n", terminal.Plural(len(f.o.Endpoints), "webhook"))
		}
		return a.With(func(c *sojourn.Client) error {
			if err := f.metrics.Serve(cmd.Context(), f.log.Logger(a.App)); err != nil {
				return err
			}
			return a.receive(cmd.Context(), c, f)
		})
	}
	return cmd
}

// endpoints returns the webhooks among the sources of a file, with their secrets.
func endpoints(list []sourcefile.Source) (all []webhook.Endpoint, err error) {
	for _, s := range list {
		if s.Endpoint == nil {
			continue
		}
		e, err := s.Endpoint()
		if err != nil {
			return nil, sojourn.Invalid("source", "source %.64q: %s", s.Options.Name, strings.TrimPrefix(err.Error(), "sojourn: "))
		}
		all = append(all, e)
	}
	return all, nil
}

func (f *webhookFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.listen, "listen", "127.0.0.1:7576", "`address` to listen on")
	fl.StringVar(&f.cert, "tls-cert", "", "certificate `file`; with --tls-key")
	fl.StringVar(&f.key, "tls-key", "", "private key `file`; with --tls-cert")
	fl.BoolVar(&f.behindTLS, "behind-tls", false, "allow other addresses than loopback without TLS, because a proxy in front terminates TLS")
	fl.IntVar(&f.o.MaxBytes, "max-bytes", webhook.DefaultMaxBytes, "maximum bytes of a body, 1 to 16 MiB")
	fl.DurationVar(&f.o.Timeout, "timeout", webhook.DefaultTimeout, "time limit to receive a body, and then to store it, 100ms to 10m")
	fl.IntVar(&f.o.MaxInFlight, "max-in-flight", webhook.DefaultMaxInFlight, "maximum requests being verified and stored at the same time, 1 to 100,000")
	fl.IntVar(&f.o.MaxConns, "max-conns", webhook.DefaultMaxConns, "maximum connections, a quarter of them reserved for known senders; when full, the oldest connection of another sender is closed")
	fl.BoolVar(&f.o.NoCapabilities, "no-links", false, "accept no response links")
	f.log.Register(fl)
	f.metrics.Register(fl)
}

func (f *webhookFlags) validate() error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return sojourn.Invalid("listen", "%.64q is not an address; use a form such as 127.0.0.1:7576", f.listen)
	}
	if (f.cert == "") != (f.key == "") {
		return sojourn.Invalid("tls_cert", "give --tls-cert and --tls-key together")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && f.cert == "" && !f.behindTLS {
		return sojourn.Invalid("listen", "other machines can reach %.64q, and requests contain secrets and links; give --tls-cert and --tls-key, or --behind-tls", f.listen)
	}
	if err := errors.Join(f.log.Validate(), f.metrics.Validate()); err != nil {
		return err
	}
	_, err = webhook.New(nil, f.o)
	return err
}

// receive serves until ctx ends. What is being stored then gets its answer first.
func (a *app) receive(ctx context.Context, c *sojourn.Client, f webhookFlags) error {
	var one sync.Mutex // a line is one write
	f.o.Logger = f.log.Logger(a.App)
	f.o.Observe = func(h webhook.Handled) {
		f.metrics.Response(cmp.Or(h.Endpoint, "unknown"), string(cmp.Or(h.Outcome, "refused")))
		if f.silent {
			return
		}
		one.Lock()
		defer one.Unlock()
		if a.AsJSON() {
			_ = a.JSON(struct {
				Endpoint string                  `json:"endpoint,omitempty"`
				Status   int                     `json:"status"`
				Code     string                  `json:"code,omitempty"`
				Outcome  sojourn.ResponseOutcome `json:"outcome,omitempty"`
			}{h.Endpoint, h.Status, h.Code, h.Outcome})
			return
		}
		_ = a.Printf("%d %s%s %s\n", h.Status, h.Outcome, h.Code, h.Endpoint)
	}
	handler, err := webhook.New(c, f.o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return cli.Unusable(err)
	}
	server := webhook.Server(handler)
	if !f.o.NoCapabilities {
		server.Handler = besideQuestions(server.Handler, c, f.o.Logger)
	}
	fmt.Fprintf(a.Err, "listening on %s\n", listener.Addr())
	done := make(chan error, 1)
	go func() {
		if f.cert != "" {
			done <- server.ServeTLS(listener, f.cert, f.key)
			return
		}
		done <- server.Serve(listener)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*f.o.Timeout)
	defer cancel()
	err = server.Shutdown(last)
	if ended := <-done; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// besideQuestions serves the pages of questions for people, whose links are capabilities too, and
// everything else with the receiver.
func besideQuestions(receiver http.Handler, c *sojourn.Client, log *slog.Logger) http.Handler {
	questions := askpage.New(c, askpage.Options{Logger: log})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, askpage.Path) {
			questions.ServeHTTP(w, r)
			return
		}
		receiver.ServeHTTP(w, r)
	})
}
