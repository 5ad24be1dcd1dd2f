package sourcefile

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source/webhook"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// door is the table [source.webhook].
type door struct {
	Path        string   `toml:"path"`
	Signature   string   `toml:"signature"`
	Secrets     []string `toml:"secrets"`
	SecretFiles []string `toml:"secret_files"`
	PublicKeys  []string `toml:"public_keys"`
	Kinds       []string `toml:"kinds"`
	Tolerance   length   `toml:"tolerance"`
	KnownOnly   bool     `toml:"known_only"`
}

// bearer is the signature that is none.
const bearer = "bearer"

var presets = map[string]func(...string) (*webhook.Signed, error){"standard": webhook.Standard, "github": webhook.GitHub, "stripe": webhook.Stripe}

// check validates the fields that need no secret.
func (d door) check() error {
	switch {
	case d.Signature != bearer && presets[d.Signature] == nil:
		return sojourn.Invalid("signature", "%.64q is not a signature; use standard, github, stripe or bearer", d.Signature)
	case d.Tolerance.Duration < 0:
		return sojourn.Invalid("tolerance", "%v is out of range: above 0", d.Tolerance)
	case d.Tolerance.Duration > 0 && (d.Signature == bearer || d.Signature == "github"):
		return sojourn.Invalid("tolerance", "signatures of %s have no timestamp; remove tolerance", d.Signature)
	case len(d.PublicKeys) > 0 && d.Signature != "standard":
		return sojourn.Invalid("public_keys", "only the signature standard uses public keys; remove public_keys")
	case len(d.Secrets)+len(d.SecretFiles)+len(d.PublicKeys) == 0:
		return sojourn.Invalid("secrets", "name environment variables, or files in secret_files")
	}
	return nil
}

// nothing verifies nothing; it checks an endpoint without its secrets.
type nothing struct{ webhook.Verifier }

// endpoint makes the endpoint with its secrets, or for checking only, without.
func (d door) endpoint(name string, ttl time.Duration, match rule.Match, env func(string) string) (e webhook.Endpoint, err error) {
	if err := d.check(); err != nil {
		return e, err
	}
	e = webhook.Endpoint{Name: name, Path: d.Path, Kinds: d.Kinds, TTL: ttl, KnownOnly: d.KnownOnly, Verify: nothing{}}
	if match != (rule.Match{}) {
		if e.Match, err = rule.Matcher(match); err != nil {
			return e, err
		}
	} else if d.Signature != bearer {
		return e, sojourn.Invalid("key", "is missing: signatures do not cover the path, so the rules kind and key have to find the job in the message")
	}
	if env != nil {
		e.Verify, err = d.verifier(env)
	}
	if err == nil {
		_, err = webhook.New(nil, webhook.Options{Endpoints: []webhook.Endpoint{e}})
	}
	return e, err
}

func (d door) verifier(env func(string) string) (webhook.Verifier, error) {
	secrets, err := d.secrets(env)
	if err != nil {
		return nil, err
	}
	if d.Signature == bearer {
		return webhook.Bearer(secrets...)
	}
	s, err := presets[d.Signature](secrets...)
	if err == nil {
		s.Tolerance = d.Tolerance.Duration
	}
	return s, err
}

// secrets reads them. All variables but the first may be empty: the old secret is gone one day.
func (d door) secrets(env func(string) string) ([]string, error) {
	secrets := slices.Clone(d.PublicKeys)
	for i, name := range d.Secrets {
		secret := env(name)
		if secret == "" && i == 0 {
			return nil, sojourn.Invalid("secrets", "the environment variable %.64q is empty", name)
		}
		if secret != "" {
			secrets = append(secrets, secret)
		}
	}
	for _, name := range d.SecretFiles {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, sojourn.Invalid("secret_files", "%v", err)
		}
		secrets = append(secrets, strings.TrimSpace(string(text)))
	}
	return secrets, nil
}

// unset lists the unset variables and unreadable files of the secrets.
func (d door) unset(env func(string) string) (missing []string) {
	if len(d.Secrets) > 0 && env(d.Secrets[0]) == "" {
		missing = append(missing, d.Secrets[0])
	}
	for _, name := range d.SecretFiles {
		if unreadable(name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// path is where the sender posts.
func (d door) path(name string, match rule.Match) string {
	if match == (rule.Match{}) {
		return "/respond/{kind}/{key}"
	}
	return cmp.Or(d.Path, "/webhook/"+name)
}
