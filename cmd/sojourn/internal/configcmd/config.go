// Package configcmd finds the settings of a command line in flags, the environment and a file, and
// has the command "config", which shows them.
package configcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/store"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "config".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

// Apply gives the flags of a command the values that the environment and the file have for them.
func Apply(a *cli.App, cmd *cobra.Command) error { return (&app{a}).configure(cmd) }

// setting is a value that a flag, the environment or the file may give, in this order.
type setting struct {
	key     string // in the file
	env     string // in the environment; with _FILE behind it, the name of a file that has the value
	flag    string // empty: there is none
	command string // that takes it; empty: all
	value   string // the default
	list    bool   // several values: a list in the file, with commas in a variable
}

// The settings beside the flags of commands.
const (
	storeKey = "store"
	tokenKey = "token_file"
	tokenEnv = "SOJOURN_TOKEN"
)

// perRun lists the flags that apply to one invocation only, such as --exec and --once. A settings
// file that happens to be in the folder must not set them.
var perRun = []string{"help", "check", "exec", "once"}

// configured are the commands whose flags are settings, with what their variables begin with.
var configured = []struct{ command, prefix string }{{"serve", "SOJOURN_"}, {"webhook", "SOJOURN_WEBHOOK_"}, {"work", "SOJOURN_WORK_"}}

// allSettings are all of them, in the order of the documentation.
func allSettings(root *cobra.Command) []setting {
	all := []setting{{key: storeKey, env: "SOJOURN_URL", flag: "store", value: "sqlite:sojourn.db"}, {key: tokenKey, env: tokenEnv},
		{key: "output", env: "SOJOURN_OUTPUT", flag: "output", value: "table"}}
	for _, c := range configured {
		cmd := child(root, c.command)
		if cmd == nil {
			continue
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if slices.Contains(perRun, f.Name) {
				return
			}
			name := strings.ReplaceAll(f.Name, "-", "_")
			_, list := f.Value.(pflag.SliceValue)
			value := f.DefValue
			if list {
				value = strings.Trim(value, "[]")
			}
			all = append(all, setting{c.command + "." + name, c.prefix + strings.ToUpper(name), f.Name, c.command, value, list})
		})
	}
	return all
}

func child(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// resolved is a value with where it comes from.
type resolved struct {
	setting
	value  string
	origin string // default, a flag, a variable, or a place in the file
}

// file is the file of the command's settings: that of --config, else that of $SOJOURN_CONFIG,
// else sojourn.toml in the working folder if it is there.
func (a *app) file() (name string, named bool) {
	name = cmp.Or(a.Config, a.Env("SOJOURN_CONFIG"))
	return cmp.Or(name, "sojourn.toml"), name != ""
}

// readConfig reads the file.
func (a *app) readConfig(known []setting) (map[string]entry, []declared, error) {
	name, named := a.file()
	if err := a.CheckMode(name, false); err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, sojourn.Invalid("config", "%v", err)
	}
	return parseConfig(name, text, known)
}

// resolve finds where each setting of a command comes from; nil is every command. It also returns
// the schedules of the file.
func (a *app) resolve(root, cmd *cobra.Command) (out []resolved, schedules []declared, err error) {
	all := allSettings(root)
	file, schedules, err := a.readConfig(all)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range all {
		if cmd != nil && s.command != "" && s.command != cmd.Name() {
			continue
		}
		r, err := a.resolveOne(s, file)
		if err != nil {
			return nil, nil, err
		}
		if f := changed(root, cmd, s.flag); f != nil {
			r.value, r.origin = f.Value.String(), "--"+f.Name
		}
		out = append(out, r)
	}
	return out, schedules, nil
}

// changed is a flag that was given.
func changed(root, cmd *cobra.Command, name string) *pflag.Flag {
	for _, c := range []*cobra.Command{root, cmd} {
		if c == nil || name == "" {
			continue
		}
		if f := c.PersistentFlags().Lookup(name); f != nil && f.Changed {
			return f
		}
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return f
		}
	}
	return nil
}

func (a *app) resolveOne(s setting, file map[string]entry) (resolved, error) {
	r := resolved{s, s.value, "default"}
	if e, ok := file[s.key]; ok {
		r.value, r.origin = e.text, e.place
		if s.key == tokenKey {
			var err error
			if r.value, err = a.ReadSecret(e.place, e.text); err != nil {
				return r, err
			}
		}
	}
	plain, name := a.Env(s.env), a.Env(s.env+"_FILE")
	switch {
	case plain != "" && name != "":
		return r, sojourn.Invalid(s.env, "%s_FILE is set too; unset one of them", s.env)
	case plain != "":
		r.value, r.origin = plain, s.env
	case name != "":
		text, err := a.ReadSecret(s.env+"_FILE", name)
		if err != nil {
			return r, err
		}
		r.value, r.origin = text, s.env+"_FILE"
	}
	return r, nil
}

// configure gives the flags of a command the values that the environment and the file have for
// them.
func (a *app) configure(cmd *cobra.Command) error {
	values, schedules, err := a.resolve(cmd.Root(), cmd)
	if err != nil {
		return err
	}
	if slices.Contains(declaring, cmd.Name()) && cmd.Parent() == cmd.Root() {
		for _, d := range schedules {
			a.Schedules = append(a.Schedules, d.Schedule)
		}
	}
	_, named := a.file()
	fromHere := false // the store is one that only a file lying in the working folder names
	for _, r := range values {
		switch {
		case r.key == storeKey && r.origin != "--store" && r.origin != "default":
			a.Named, fromHere = r.value, r.fromFile() && !named
		case r.key == tokenKey:
			if r.value != "" && !r.fromFile() && fromHere && store.IsServer(a.Named) {
				return sojourn.Invalid(r.origin, "the token is not sent, because only the settings file in the working folder names the server; name the server with --store or SOJOURN_URL, or the file with --config")
			}
			a.Token = r.value
		case r.key != storeKey && r.origin != "default" && !strings.HasPrefix(r.origin, "--"):
			f := cmd.Flags().Lookup(r.flag)
			give := f.Value.Set
			if list, ok := f.Value.(pflag.SliceValue); ok {
				give = func(text string) error { return list.Replace(strings.Split(text, ",")) }
			}
			if err := give(r.value); err != nil {
				return sojourn.Invalid(r.origin, "%.64q is not a value for %s: %v", r.value, r.key, err)
			}
		}
	}
	return nil
}

// fromFile reports whether the value stands in the file of settings.
func (r resolved) fromFile() bool { return strings.Contains(r.origin, ":") }

const configHelp = `Shows the current settings, without secrets. The first source that sets a value wins: a flag, a variable SOJOURN_…, the file named by the same variable with
the suffix _FILE, sojourn.toml in the working folder (or the file of --config or $SOJOURN_CONFIG), the default. docs/reference/config.md lists all settings. A schedule of the file is
shown as schedule.NAME.

The settings that the store keeps for all its processes are others: "sojourn config get", "set" and "unset".`

// shownSetting is one line of config.
type shownSetting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	Env    string `json:"env"`
}

func (a *app) command() *cobra.Command {
	var origins bool
	cmd := &cobra.Command{Use: "config", Short: "show the settings of this program and their origins; get, set and unset those of the store", Long: configHelp, Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&origins, "origins", false, "also show the origin of each setting and its environment variable")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		values, schedules, err := a.resolve(cmd.Root(), nil)
		if err != nil {
			return err
		}
		t := terminal.NewTable(a.Out, "KEY", "VALUE")
		if origins {
			t = terminal.NewTable(a.Out, "KEY", "VALUE", "ORIGIN", "VARIABLE")
		}
		var all []shownSetting
		for _, r := range values {
			all = append(all, shownSetting{r.key, masked(r), r.origin, r.env})
		}
		for _, d := range schedules {
			all = append(all, d.shown())
		}
		for _, s := range all {
			if a.AsJSON() {
				if err := a.JSON(s); err != nil {
					return err
				}
				continue
			}
			t.Row([]string{s.Key, s.Value, s.Origin, s.Env}[:map[bool]int{false: 2, true: 4}[origins]]...)
		}
		if a.AsJSON() {
			return nil
		}
		return t.Flush()
	}
	cmd.AddCommand(storeCommands(a)...)
	return cmd
}

// masked returns the value of a setting without its secrets.
func masked(r resolved) string {
	switch {
	case r.value == "":
		return ""
	case r.key == tokenKey:
		return "***"
	case r.key == storeKey:
		return store.Redact(r.value)
	}
	return r.value
}

// nearest is the name that differs least from a misspelt one, if it differs little.
func nearest(name string, names []string) string {
	best, least := "", 3
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance counts the characters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// hintOf names the nearest one.
func hintOf(name string, names []string) string {
	if n := nearest(name, names); n != "" {
		return fmt.Sprintf("; did you mean %s?", n)
	}
	return "; \"sojourn config\" lists the keys"
}
