package httpjob

import (
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/webhooksign"
)

// secret is a Secret that has been checked.
type secret struct {
	hosts []string // as hostName writes them
	key   []byte   // nil: unsigned
}

// check reads a secret, the number of which is for the error.
func (s Secret) check(number int) (secret, error) {
	out := secret{}
	for _, h := range s.Hosts {
		h = hostName(h)
		if name := strings.TrimPrefix(h, "*."); name == "" || strings.ContainsAny(name, "*/@ \t") || strings.Contains(name, "://") {
			return out, sojourn.Invalid("secrets", "number %d: %.64q is not the name of a host, without port and path, such as bank.example or *.bank.example", number, h)
		}
		out.hosts = append(out.hosts, h)
	}
	if len(out.hosts) == 0 {
		return out, sojourn.Invalid("secrets", "number %d names no host: a secret signs only requests to the hosts that it names, as in bank.example=whsec_…", number)
	}
	if s.Key == Unsigned {
		return out, nil
	}
	var ok bool
	if out.key, ok = webhooksign.Key(s.Key); !ok {
		return out, sojourn.Invalid("secrets", "number %d is not \"whsec_\" with the base64 of 24 to 64 bytes", number)
	}
	return out, nil
}

// ParseSecret reads "bank.example,*.bank.example=whsec_…".
func ParseSecret(text string) (Secret, error) {
	hosts, key, ok := strings.Cut(text, "=")
	if !ok || strings.HasPrefix(hosts, "whsec_") {
		return Secret{}, sojourn.Invalid("secrets", "name the hosts that a secret is for, as in bank.example=whsec_…")
	}
	return Secret{Hosts: strings.Split(hosts, ","), Key: key}, nil
}

// hostName is a host in its one spelling.
func hostName(h string) string {
	return strings.TrimSuffix(strings.ToLower(strings.Trim(h, "[]")), ".")
}

// keys are what signs requests to a host. None signs nothing.
func (c *Caller) keys(host string) (keys [][]byte, err error) {
	host = hostName(host)
	named := len(c.secrets) == 0
	for _, s := range c.secrets {
		if !slices.ContainsFunc(s.hosts, func(pattern string) bool { return covers(pattern, host) }) {
			continue
		}
		if named = true; s.key != nil {
			keys = append(keys, s.key)
		}
	}
	if !named {
		return nil, sojourn.Invalid("url", "no secret of this worker is for the host %.64q, so the request would not be signed; name the host in SOJOURN_HTTP_SECRETS", host)
	}
	return keys, nil
}

func covers(pattern, host string) bool {
	if below, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, below) && len(host) > len(below)
	}
	return pattern == host
}
