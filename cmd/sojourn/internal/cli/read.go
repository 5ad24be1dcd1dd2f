package cli

import (
	"io"
	"os"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

// BytesFrom reads what --args and --body take: the text itself, @FILE, or - for standard input.
func (a *App) BytesFrom(flag, value string) ([]byte, error) {
	var b []byte
	var err error
	switch name, file := strings.CutPrefix(value, "@"); {
	case value == "-":
		b, err = readAll(a.In)
	case file:
		b, err = readFile(name)
	default:
		return []byte(value), nil
	}
	if err != nil {
		return nil, sojourn.Invalid(flag, "%v", err)
	}
	return b, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

// readAll reads one byte more than any store takes, so that the store's refusal names the limit.
func readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, sojourn.MaxMaxBytes+1))
}

// User names who does this, for the history.
func (a *App) User() string {
	for _, name := range []string{"USER", "USERNAME"} {
		if v := a.Env(name); v != "" {
			return v
		}
	}
	return "cli"
}

// ReadSecret reads the value that stands in a file of its own.
func (a *App) ReadSecret(origin, name string) (string, error) {
	if err := a.CheckMode(name, true); err != nil {
		return "", err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", sojourn.Invalid(origin, "%v", err)
	}
	return strings.TrimSpace(string(b)), nil
}
