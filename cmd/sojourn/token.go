package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/httpapi/server"
)

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "make and end the tokens that open servers", a.tokenCreateCommand(), a.tokenLsCommand(), a.tokenRevokeCommand(), a.tokenRotateCommand())
}

// madeToken is the output of create and rotate: the only place at which a token is ever shown.
type madeToken struct {
	ID        string    `json:"id"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

const tokenCreateHelp = `Makes a token and shows it, this once: only its hash is stored. A server asks for it as Authorization: Bearer, and the
client takes it from SOJOURN_TOKEN. The verbs hold for the jobs whose queue and kind match the patterns, in which * stands for any text.

  sojourn token create --name shop --verb enqueue,respond --queue 'pay*' --for 2160h
  sojourn token create --name workers --verb work,enqueue --kind 'charge_*'
  sojourn token create --name admin --verb admin

Verbs: enqueue, respond, work, read (without args and results), read:args, operate (cancel, redrive, change, hold), admin (all).`

func (a *app) tokenCreateCommand() *cobra.Command {
	var name, queue, kind string
	var verbs []string
	var life time.Duration
	cmd := &cobra.Command{Use: "create", Short: "make a token, and show it once", Long: tokenCreateHelp, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&name, "name", "", "what people call it")
	fl.StringSliceVar(&verbs, "verb", nil, "`VERBS` that it allows")
	fl.StringVar(&queue, "queue", "", "`PATTERN` of the queues (default all)")
	fl.StringVar(&kind, "kind", "", "`PATTERN` of the kinds (default all)")
	fl.DurationVar(&life, "for", 90*24*time.Hour, "how long it is good")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for name, pattern := range map[string]string{"queue": queue, "kind": kind} {
			if pattern == "" && cmd.Flags().Changed(name) { // such as --queue "$QUEUE" with a variable that is not set
				return sojourn.Invalid(name, "is empty, which would mean all: give a pattern, or '*' for all")
			}
		}
		grant := sojourn.Grant{Queue: queue, Kind: kind}
		for _, v := range verbs {
			grant.Verbs = append(grant.Verbs, sojourn.Verb(v))
		}
		return a.withTokens(func(s sojourn.AccessStore) error {
			return a.makeToken(cmd.Context(), s, name, life, []sojourn.Grant{grant})
		})
	}
	return cmd
}

func (a *app) makeToken(ctx context.Context, s sojourn.AccessStore, name string, life time.Duration, grants []sojourn.Grant) error {
	if life <= 0 || life > sojourn.MaxHorizon {
		return sojourn.Invalid("for", "%v is out of range: above 0, to 10 years", life)
	}
	t, bearer := server.NewToken(name, life, grants)
	if err := s.SetAccessToken(ctx, t); err != nil {
		return err
	}
	if a.asJSON() {
		return a.json(madeToken{t.ID, bearer, t.ExpiresAt})
	}
	return a.printf("%s\n", bearer)
}

// withTokens opens the store itself: a server gives its tokens to nobody.
func (a *app) withTokens(fn func(s sojourn.AccessStore) error) error {
	return a.creating(func(c *sojourn.Client) error {
		s, ok := c.Store().(sojourn.AccessStore)
		if !ok {
			return sojourn.Invalid("store", "%s keeps no tokens: name the database, where the server runs", a.shown())
		}
		return fn(s)
	})
}

func (a *app) tokenLsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list tokens, without their secrets", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withTokens(func(s sojourn.AccessStore) error {
			tokens, err := s.AccessTokens(cmd.Context())
			if err != nil || a.asJSON() {
				return orElse(err, func() error { return jsonLines(a, tokens) })
			}
			t := newTable(a.out, "ID", "NAME", "STATE", "GRANTS", "EXPIRES", "USED")
			for _, k := range tokens {
				state := "good"
				switch {
				case !k.RevokedAt.IsZero():
					state = "revoked"
				case !k.Good(time.Now()):
					state = "expired"
				}
				t.row(k.ID, k.Name, state, grantsText(k.Grants), k.ExpiresAt.Format(time.RFC3339), lastUse(k.UsedAt))
			}
			return t.flush()
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

func grantsText(grants []sojourn.Grant) string {
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
func tokenNamed(ctx context.Context, s sojourn.AccessStore, id string) (sojourn.AccessToken, error) {
	tokens, err := s.AccessTokens(ctx)
	for _, t := range tokens {
		if t.ID == id {
			return t, nil
		}
	}
	if err == nil {
		err = sojourn.NotFound("no token has the id %.64q", id)
	}
	return sojourn.AccessToken{}, err
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ID...", Short: "end tokens, within 2 s on every server", Args: cobra.MinimumNArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withTokens(func(s sojourn.AccessStore) error {
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
				if err := a.printf("token %s is revoked\n", id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func (a *app) tokenRotateCommand() *cobra.Command {
	var overlap, life time.Duration
	cmd := &cobra.Command{Use: "rotate ID", Short: "make a token that allows the same, and end the old one after an overlap", Args: cobra.ExactArgs(1)}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old one stays good")
	cmd.Flags().DurationVar(&life, "for", 90*24*time.Hour, "how long the new one is good")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withTokens(func(s sojourn.AccessStore) error {
			old, err := tokenNamed(cmd.Context(), s, args[0])
			if err == nil && !old.Good(time.Now()) {
				err = sojourn.Conflict("token %s has ended; make a new one with token create", old.ID)
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
