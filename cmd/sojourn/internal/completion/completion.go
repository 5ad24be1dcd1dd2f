// Package completion completes arguments and flags in a shell with names that the store knows.
package completion

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/configcmd"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/inboxcmd"
	"github.com/sojourn-queue/sojourn/store"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Add offers the names that the store knows, where a command takes one.
func Add(a *cli.App, root *cobra.Command) { (&app{a}).completions(root) }

const (
	completeWithin = time.Second // a shell waits for it: later than this there is nothing to choose from
	completeJobs   = 1000        // the newest jobs, whose kinds are offered
)

// offer is what a shell may choose from.
type offer func(ctx context.Context, c *sojourn.Client) ([]string, error)

// completions offers the names that the store knows, where a command takes one.
func (a *app) completions(root *cobra.Command) {
	live := func(o offer) cobra.CompletionFunc {
		return func(cmd *cobra.Command, given []string, begin string) ([]string, cobra.ShellCompDirective) {
			return after(begin, without(a.ask(cmd, o), given)), cobra.ShellCompDirectiveNoFileComp
		}
	}
	fixed := func(words ...string) cobra.CompletionFunc {
		return func(_ *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			return after(begin, words), cobra.ShellCompDirectiveNoFileComp
		}
	}
	flags := map[string]cobra.CompletionFunc{"queue": live(queueNames), "kind": live(kindNames), "pause-kind": live(kindNames), "state": fixed(stateNames()...),
		"output": fixed("table", "json"), "outcome": fixed(outcomeNames()...), "verb": fixed(verbNames()...)}
	args := map[string]cobra.CompletionFunc{"enqueue": first(live(kindNames)), "respond": first(live(kindNames)), "queue ls": live(queueNames), "queue pause": live(queueNames),
		"queue resume": live(queueNames), "queue forget": live(queueNames), "worker get": first(live(workerNames)), "worker drain": first(live(workerNames)), "worker forget": first(live(workerNames))}
	for _, name := range []string{"get", "peek", "set", "hold", "unhold"} {
		args["queue "+name] = first(live(queueNames))
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for name, fn := range flags {
			if cmd.LocalFlags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, fn) // fails only if there is one already
			}
		}
		path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		if fn := args[path]; fn != nil {
			cmd.ValidArgsFunction = fn
		} else if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() && !strings.Contains(cmd.Use, "FILE") {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
}

// first offers nothing behind the first argument.
func first(fn cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return fn(cmd, given, begin)
	}
}

// ask asks the store, for a short time. Whatever goes wrong, there is nothing to offer, and nothing
// is said: the shell would print it into the line.
func (a *app) ask(cmd *cobra.Command, o offer) []string {
	found := make(chan []string, 1)
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	go func() {
		var names []string
		defer func() { found <- names }()
		if configcmd.Apply(a.App, cmd) != nil {
			return
		}
		c, err := store.Open(a.URL(), store.MustExist(), store.Rules(rule.Throttlers()), store.ServerToken(a.Token))
		if err != nil {
			return
		}
		defer c.Close()
		names, _ = o(ctx, c)
	}()
	select {
	case names := <-found:
		slices.Sort(names)
		return slices.Compact(names)
	case <-ctx.Done():
		return nil
	}
}

func queueNames(ctx context.Context, c *sojourn.Client) (names []string, err error) {
	queues, err := c.Store().Queues(ctx)
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names, err
}

// kindNames are those that workers ask for and those of the newest jobs.
func kindNames(ctx context.Context, c *sojourn.Client) (names []string, err error) {
	jobs, err := c.Store().Find(ctx, sojourn.Filter{Newest: true, Limit: completeJobs})
	for _, j := range jobs {
		names = append(names, j.Kind)
	}
	workers, _ := c.Store().Workers(ctx, "", sojourn.MaxFind)
	for _, w := range workers {
		names = append(names, w.Kinds...)
	}
	return names, err
}

func workerNames(ctx context.Context, c *sojourn.Client) (names []string, err error) {
	workers, err := c.Store().Workers(ctx, "", sojourn.MaxFind)
	for _, w := range workers {
		names = append(names, w.Worker)
		if w.Name != "" {
			names = append(names, w.Name)
		}
	}
	return names, err
}

func stateNames() []string {
	names := []string{"live", "final"}
	for s := sojourn.State(0); s <= sojourn.Cancelled; s++ {
		names = append(names, s.String())
	}
	return names
}

func outcomeNames() (names []string) {
	for _, o := range inboxcmd.Outcomes {
		names = append(names, string(o))
	}
	return names
}

func verbNames() (names []string) {
	for _, v := range access.Verbs {
		names = append(names, string(v))
	}
	return names
}

// after are the names that begin so; of a list with commas, its last word counts.
func after(begin string, names []string) (out []string) {
	i := strings.LastIndexByte(begin, ',') + 1
	for _, n := range names {
		if strings.HasPrefix(n, begin[i:]) {
			out = append(out, begin[:i]+n)
		}
	}
	return out
}

// without returns the sorted names that are not in given.
func without(names, given []string) []string {
	known := map[string]bool{}
	for _, n := range names {
		known[n] = true
	}
	for _, g := range given {
		delete(known, g)
	}
	return slices.Sorted(maps.Keys(known))
}
