// Package sourcecmd has the commands that receive responses: "source" and "webhook".
package sourcecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/sourcefile"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "source".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// WebhookCommand makes the command "webhook".
func WebhookCommand(a *cli.App) *cobra.Command { return (&app{a}).webhookCommand() }

func (a *app) command() *cobra.Command {
	return cli.Group("source", "deliver responses from brokers and webhooks to jobs, as a file configures", a.lsCommand(), a.checkCommand(), a.testCommand(), a.runCommand())
}

// load reads a file of sources, and warns if other users can write it.
func (a *app) load(file string) ([]sourcefile.Source, error) {
	_ = a.CheckMode(file, false)
	return sourcefile.Load(file)
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls FILE", Short: "list the sources of a file and their missing secrets", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		list, err := a.load(args[0])
		if err != nil {
			return err
		}
		type line struct {
			Name   string   `json:"name"`
			Broker string   `json:"broker"`
			From   string   `json:"from"`
			Kind   string   `json:"kind"`
			Key    string   `json:"key"`
			When   string   `json:"when,omitempty"`
			Unset  []string `json:"unset,omitempty"`
		}
		t := terminal.NewTable(a.Out, "NAME", "BROKER", "FROM", "KIND", "KEY", "WHEN", "UNSET")
		for _, s := range list {
			l := line{s.Options.Name, s.Broker, s.From, s.Rules.Kind, s.Rules.Key, s.Rules.When, s.Unset()}
			if a.AsJSON() {
				if err := a.JSON(l); err != nil {
					return err
				}
				continue
			}
			t.Row(l.Name, l.Broker, l.From, terminal.Short(l.Kind, 32), terminal.Short(l.Key, 40), terminal.Short(l.When, 40), strings.Join(l.Unset, ","))
		}
		if a.AsJSON() {
			return nil
		}
		return t.Flush()
	}
	return cmd
}

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "check FILE", Short: "check a file and its secrets, without a broker", Args: cobra.ExactArgs(1)}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		list, err := sourcefile.Load(args[0])
		if err != nil {
			return err
		}
		var bad []error
		for _, s := range list {
			unset := s.Unset()
			for _, name := range unset {
				bad = append(bad, fmt.Errorf("source %s: the secret %s is not set; set the environment variable, or create the file", s.Options.Name, name))
			}
			if s.Endpoint == nil || len(unset) > 0 {
				continue
			}
			if _, err := s.Endpoint(); err != nil {
				bad = append(bad, fmt.Errorf("source %s: %s", s.Options.Name, strings.TrimPrefix(err.Error(), "sojourn: ")))
			}
		}
		return errors.Join(bad...)
	}
	return cmd
}

const sourceTestHelp = `Shows how a source handles one message, without a broker and without a store. The outcome is one of

  response     a response to the job with this kind and key
  error        an error response to that job
  progress     a progress report for that job
  passed_over  ignored: the rule "when" is false
  parked       unreadable; the reason names the rule and the position in it. Exit code 1
  refused      webhooks only: the signature is not valid, or the webhook may not answer this kind. Exit code 1

  sojourn source test sources.toml --file sample.json --header event-id=evt_77

If you give the headers of a webhook with its signature, the signature is checked with the secrets of the file.`

func (a *app) testCommand() *cobra.Command {
	var name, file, at string
	var headers []string
	m := source.Message{ID: "sample"}
	cmd := &cobra.Command{Use: "test FILE --file SAMPLE", Short: "show how a source handles a message", Long: sourceTestHelp, Args: cobra.ExactArgs(1)}
	fl := cmd.Flags()
	fl.StringVar(&file, "file", "-", "the body of the message: a `file`, or - for standard input")
	fl.StringVar(&name, "source", "", "name of the source (default the only source of the file)")
	fl.StringArrayVar(&headers, "header", nil, "a header of the message, `NAME=VALUE`; may be repeated")
	fl.StringVar(&m.Topic, "topic", "", "topic, subject or routing key of the message")
	fl.StringVar(&m.Key, "key", "", "the broker's key of the message")
	fl.StringVar(&m.ContentType, "content-type", "", "content type of the message")
	fl.StringVar(&at, "at", "", "check the signature of a webhook at this `time`, such as 2026-01-31T12:00:00Z (default now)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.oneSource(args[0], name)
		if err != nil {
			return err
		}
		if m.Headers, err = pairs("header", headers); err != nil {
			return err
		}
		if file != "-" {
			file = "@" + file
		}
		if m.Body, err = a.BytesFrom("file", file); err != nil {
			return err
		}
		if s.Broker != "webhook" {
			return a.test(cmd.Context(), s, &m)
		}
		now := time.Now()
		if at != "" {
			if now, err = time.Parse(time.RFC3339, at); err != nil {
				return sojourn.Invalid("at", "%.64q is not a time; use a form such as 2026-01-31T12:00:00Z", at)
			}
		}
		return a.webhookTest(cmd.Context(), s, m, now)
	}
	return cmd
}

func (a *app) oneSource(file, name string) (sourcefile.Source, error) {
	list, err := a.load(file)
	if err != nil {
		return sourcefile.Source{}, err
	}
	if name != "" {
		list = slices.DeleteFunc(list, func(s sourcefile.Source) bool { return s.Options.Name != name })
	}
	switch {
	case len(list) == 0:
		return sourcefile.Source{}, sojourn.Invalid("source", "%s has no source %q; \"sojourn source ls\" lists its sources", file, name)
	case len(list) > 1:
		return sourcefile.Source{}, sojourn.Invalid("source", "%s has %d sources; name one with --source", file, len(list))
	}
	return list[0], nil
}

func pairs(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range list {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, sojourn.Invalid(flag, "%.64q is not of the form NAME=VALUE", p)
		}
		out[name] = value
	}
	return out, nil
}

// verdict is what a source makes of a message.
type verdict struct {
	Outcome   string `json:"outcome"`
	Signature string `json:"signature,omitempty"` // of a webhook
	Kind      string `json:"kind,omitempty"`
	Key       string `json:"key,omitempty"`
	MessageID string `json:"message_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Error     string `json:"error,omitempty"`
	Body      []byte `json:"body,omitempty"`
}

func (a *app) test(ctx context.Context, s sourcefile.Source, m *source.Message) error {
	return a.sayVerdict(judge(ctx, s, m))
}

// judge asks the rules.
func judge(ctx context.Context, s sourcefile.Source, m *source.Message) (v verdict, r *sojourn.Response) {
	r = s.Options.Match.Response(ctx, s.Options.Name, m)
	v.Outcome = "passed_over"
	if r != nil {
		v = verdict{Outcome: "response", Kind: r.Kind, Key: r.Key, MessageID: r.MessageID, Reason: r.Reason, Error: r.Error}
		if err := r.Validate(sojourn.MaxMaxBytes); err != nil && !r.Park {
			v.Outcome, v.Reason, v.Error = "parked", sojourn.ErrorCode(err), strings.TrimPrefix(err.Error(), "sojourn: ")
		}
		switch {
		case r.Park:
			v.Outcome = "parked"
		case r.Failed:
			v.Outcome = "error"
		case r.Progress:
			v.Outcome = "progress"
		}
	}
	return v, r
}

func (a *app) sayVerdict(v verdict, r *sojourn.Response) error {
	if err := a.printVerdict(v, r); err != nil {
		return err
	}
	if v.Outcome == "parked" || v.Outcome == "refused" {
		return fmt.Errorf("the message would be %s", v.Outcome)
	}
	return nil
}

func (a *app) printVerdict(v verdict, r *sojourn.Response) error {
	if a.AsJSON() {
		if r != nil {
			v.Body = r.Body
		}
		return a.JSON(v)
	}
	t := terminal.NewTable(a.Out)
	for _, line := range [][2]string{{"outcome", v.Outcome}, {"signature", v.Signature}, {"kind", v.Kind}, {"key", v.Key}, {"id", v.MessageID}, {"reason", v.Reason}, {"error", v.Error}} {
		if line[1] != "" {
			t.Row(line[0], line[1])
		}
	}
	if r != nil {
		t.Row("body", terminal.Short(terminal.BytesText(r.Body), 200))
	}
	return t.Flush()
}

const sourceRunHelp = `Delivers messages of brokers to the jobs of the store until SIGINT or SIGTERM. A message is acknowledged when its response is durable.
While a broker or the store is unavailable, it retries. If the file has webhooks, it receives them on --listen, and also requests to response links.`

func (a *app) runCommand() *cobra.Command {
	var name string
	var verbose bool
	var hooks webhookFlags
	cmd := &cobra.Command{Use: "run FILE", Short: "run the sources of a file", Long: sourceRunHelp, Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&name, "source", "", "only this source")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print a line for each message: id, outcome, kind and key; for a webhook status, outcome and name")
	hooks.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := a.load(args[0])
		if err != nil {
			return err
		}
		if name != "" {
			s, err := a.oneSource(args[0], name)
			if err != nil {
				return err
			}
			list = []sourcefile.Source{s}
		}
		if hooks.o.Endpoints, err = endpoints(list); err != nil {
			return err
		}
		hooks.silent = !verbose
		if err := hooks.validate(); err != nil {
			return err
		}
		return a.With(func(c *sojourn.Client) error { return a.run(cmd.Context(), c, list, hooks) })
	}
	return cmd
}

func (a *app) run(ctx context.Context, c *sojourn.Client, list []sourcefile.Source, hooks webhookFlags) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	logger := hooks.log.Logger(a.App)
	if err := hooks.metrics.Serve(ctx, logger); err != nil {
		return err
	}
	var ready []*source.Source
	for _, s := range list {
		if s.Open == nil {
			continue
		}
		broker, err := s.Open()
		if err != nil {
			return err
		}
		defer broker.Close()
		s.Options.Logger = logger
		count := hooks.metrics.Source(s.Options.Name)
		s.Options.Observe = func(h source.Handled) {
			count(h)
			if !hooks.silent {
				a.handled(s.Options.Name, h)
			}
		}
		one, err := source.New(c, broker, s.Options)
		if err != nil {
			return err
		}
		ready = append(ready, one)
	}
	var all sync.WaitGroup
	failed := make([]error, len(ready)+1)
	if len(hooks.o.Endpoints) > 0 {
		all.Go(func() {
			failed[len(ready)] = a.receive(ctx, c, hooks)
			stop()
		})
	}
	for i, s := range ready {
		all.Go(func() {
			failed[i] = s.Run(ctx)
			stop() // one that cannot go on ends all, so that somebody looks
		})
	}
	logger.Info("sources run", "sources", len(list))
	all.Wait()
	return errors.Join(failed...)
}

// handled says what became of a message. Sources run side by side; a line is one write.
func (a *app) handled(name string, h source.Handled) {
	v := struct {
		Source    string                  `json:"source"`
		Message   string                  `json:"message"`
		Outcome   sojourn.ResponseOutcome `json:"outcome"`
		Kind      string                  `json:"kind,omitempty"`
		Key       string                  `json:"key,omitempty"`
		Job       sojourn.ID              `json:"job,omitempty"`
		Reason    string                  `json:"reason,omitempty"`
		Error     string                  `json:"error,omitempty"`
		MessageID string                  `json:"message_id,omitempty"`
	}{Source: name, Message: h.Message.ID, Outcome: "passed_over", Job: h.Answer.Job}
	if r := h.Response; r != nil {
		v.Outcome, v.Kind, v.Key, v.Reason, v.Error, v.MessageID = h.Answer.Outcome, r.Kind, r.Key, r.Reason, r.Error, r.MessageID
	}
	if a.AsJSON() {
		_ = a.JSON(v)
		return
	}
	line := fmt.Sprintf("%s: %s %s %s/%s", name, v.Message, v.Outcome, v.Kind, v.Key)
	if v.Outcome == sojourn.Parked {
		line = fmt.Sprintf("%s: %s parked, %s: %s", name, v.Message, v.Reason, v.Error)
	}
	_ = a.Printf("%s\n", terminal.Clean(line))
}
