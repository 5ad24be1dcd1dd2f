// Package tokencmd has the command "token", which manages the access tokens of servers.
package tokencmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/cli"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
	"github.com/sojourn-queue/sojourn/httpapi/server"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command makes the command "token".
func Command(a *cli.App) *cobra.Command { return (&app{a}).command() }

func (a *app) command() *cobra.Command {
	return cli.Group("token", "create, list and revoke access tokens for servers", a.createCommand(), a.lsCommand(), a.revokeCommand(), a.rotateCommand())
}

// madeToken is the output of create and rotate: the only place at which a token is ever shown.
type madeToken struct {
	ID        string    `json:"id"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

const tokenCreateHelp = `Creates a token and prints it once; only its hash is stored. Clients send it as "Authorization: Bearer TOKEN"; the sojourn command
reads it from SOJOURN_TOKEN. The verbs apply to jobs whose queue and kind match the patterns; * matches any text.

  sojourn token create --name shop --verb enqueue,respond --queue 'pay*' --for 2160h
  sojourn token create --name workers --verb work,enqueue --kind 'charge_*'
  sojourn token create --name admin --verb admin

Verbs: enqueue, respond, work, read (without args and results), read:args, read:redacted (with what serve --redact hides), operate (cancel, redrive, change, hold), admin (everything).`

func (a *app) createCommand() *cobra.Command {
	var name, queue, kind string
	var verbs []string
	var life time.Duration
	cmd := &cobra.Command{Use: "create", Short: "create a token and print it once", Long: tokenCreateHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&name, "name", "", "name of the token, for people")
	fl.StringSliceVar(&verbs, "verb", nil, "allowed `VERBS`")
	fl.StringVar(&queue, "queue", "", "`PATTERN` of the allowed queues (default all)")
	fl.StringVar(&kind, "kind", "", "`PATTERN` of the allowed kinds (default all)")
	fl.DurationVar(&life, "for", 90*24*time.Hour, "how long the token is valid")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for name, pattern := range map[string]string{"queue": queue, "kind": kind} {
			if pattern == "" && cmd.Flags().Changed(name) { // such as --queue "$QUEUE" with a variable that is not set
				return sojourn.Invalid(name, "the pattern is empty; give a pattern, or '*' for all")
			}
		}
		grant := access.Grant{Queue: queue, Kind: kind}
		for _, v := range verbs {
			grant.Verbs = append(grant.Verbs, access.Verb(v))
		}
		return a.withTokens(func(s access.Keeper) error {
			return a.makeToken(cmd.Context(), s, name, life, []access.Grant{grant})
		})
	}
	return cmd
}

func (a *app) makeToken(ctx context.Context, s access.Keeper, name string, life time.Duration, grants []access.Grant) error {
	if life <= 0 || life > sojourn.MaxHorizon {
		return sojourn.Invalid("for", "%v is out of range: above 0, up to 10 years", life)
	}
	t, bearer := server.NewToken(name, life, grants)
	if err := s.SetAccessToken(ctx, t); err != nil {
		return err
	}
	if a.AsJSON() {
		return a.JSON(madeToken{t.ID, bearer, t.ExpiresAt})
	}
	return a.Printf("%s\n", bearer)
}

// withTokens opens the store itself: a server gives its tokens to nobody.
func (a *app) withTokens(fn func(s access.Keeper) error) error {
	return a.Creating(func(c *sojourn.Client) error {
		s, ok := c.Store().(access.Keeper)
		if !ok {
			return sojourn.Invalid("store", "%s gives no access to tokens; run this command on the server's machine and name its database with --store", a.Shown())
		}
		return fn(s)
	})
}

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list tokens, without their secrets", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withTokens(func(s access.Keeper) error {
			tokens, err := s.AccessTokens(cmd.Context())
			if err != nil || a.AsJSON() {
				return cli.OrElse(err, func() error { return cli.JSONLines(a.App, tokens) })
			}
			t := terminal.NewTable(a.Out, "ID", "NAME", "STATE", "GRANTS", "EXPIRES", "USED")
			for _, k := range tokens {
				state := "good"
				switch {
				case !k.RevokedAt.IsZero():
					state = "revoked"
				case !k.Good(time.Now()):
					state = "expired"
				}
				t.Row(k.ID, k.Name, state, grantsText(k.Grants), k.ExpiresAt.Format(time.RFC3339), lastUse(k.UsedAt))
			}
			return t.Flush()
		})
	}
	return cmd
}

func lastUse(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.Format(time.RFC3339)
}

func grantsText(grants []access.Grant) string {
	var all []string
	for _, g := range grants {
		var verbs []string
		for _, v := range g.Verbs {
			verbs = append(verbs, string(v))
		}
		text := strings.Join(verbs, ",")
		for _, p := range []struct{ what, pattern string }{{"queue", g.Queue}, {"kind", g.Kind}} {
			if p.pattern != "" {
				text += fmt.Sprintf(" %s=%s", p.what, p.pattern)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// tokenNamed finds a token by its id.
func tokenNamed(ctx context.Context, s access.Keeper, id string) (access.Token, error) {
	tokens, err := s.AccessTokens(ctx)
	for _, t := range tokens {
		if t.ID == id {
			return t, nil
		}
	}
	if err == nil {
		err = sojourn.NotFound("no token has the id %.64q; \"sojourn token ls\" lists them", id)
	}
	return access.Token{}, err
}

func (a *app) revokeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ID...", Short: "revoke tokens; every server refuses them within 2 s", Args: cobra.MinimumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withTokens(func(s access.Keeper) error {
			for _, id := range args {
				t, err := tokenNamed(cmd.Context(), s, id)
				if err != nil {
					return err
				}
				if t.RevokedAt.IsZero() {
					t.RevokedAt = time.Now()
				}
				if err := s.SetAccessToken(cmd.Context(), t); err != nil {
					return err
				}
				if err := a.Printf("token %s is revoked\n", id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func (a *app) rotateCommand() *cobra.Command {
	var overlap, life time.Duration
	cmd := &cobra.Command{Use: "rotate ID", Short: "create a token with the same grants; the old one expires after an overlap", Args: cobra.ExactArgs(1)}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old token stays valid")
	cmd.Flags().DurationVar(&life, "for", 90*24*time.Hour, "how long the new token is valid")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withTokens(func(s access.Keeper) error {
			old, err := tokenNamed(cmd.Context(), s, args[0])
			if err == nil && !old.Good(time.Now()) {
				err = sojourn.Conflict("token %s has expired or is revoked; create a new one with \"sojourn token create\"", old.ID)
			}
			if err != nil {
				return err
			}
			if err := a.makeToken(cmd.Context(), s, old.Name, life, old.Grants); err != nil {
				return err
			}
			if end := time.Now().Add(max(overlap, 0)); end.Before(old.ExpiresAt) {
				old.ExpiresAt = end
			}
			return s.SetAccessToken(cmd.Context(), old)
		})
	}
	return cmd
}
