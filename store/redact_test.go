package store

import (
	"strings"
	"testing"
)

// secret is the password in all addresses.
const secret = "hunter2"

// TestNoPasswordInErrors: no error shows the password of an address, in any form and with any
// mistake.
func TestNoPasswordInErrors(t *testing.T) {
	for _, address := range []string{
		"host=127.0.0.1 port=1 user=u password=" + secret + " dbname=d", "user=u password='" + secret + " x' host=127.0.0.1", "password=" + secret + ".db",
		"postgres://u:" + secret + "@127.0.0.1:1/d", "postgres://u:" + secret + "@127.0.0.1:bad/d", "postgres://u:pa/" + secret + "@127.0.0.1/d",
		"postgres://u:" + secret + "%zz@127.0.0.1/d", "postgres://127.0.0.1:1/d?user=u&password=" + secret, "postgres://127.0.0.1:1/d?sslmode=" + secret,
		"postgres://127.0.0.1:1/d?sslpassword=" + secret + "&sslmode=bad", "postgres://127.0.0.1:1/d?pool_max_conns=" + secret,
		"postgres://127.0.0.1:1/d?password=" + secret + "&sslmode=bad", "postgres://127.0.0.1:1/d?passfile=/" + secret + "&sslmode=bad",
		"postgresql://u:" + secret + "@[::1/d", "postgres:/u:" + secret + "@host/d", "mysql://u:" + secret + "@host/d", "pg://u:" + secret + "@host",
		`{"host":"127.0.0.1","port":1,"user":"u","password":"` + secret + `"`, `{"host":"127.0.0.1","port":"` + secret + `","password":"` + secret + `"}`,
		`{"host":"127.0.0.1","port":1,"sslmode":"bad","password":"` + secret + `"}`, "http://u:" + secret + "@host", "https://host/?token=" + secret,
		"sqlite://u:" + secret + "@host/f.db", "sqlite:f.db?key=" + secret, "u:" + secret + "@host/d",
	} {
		if shown := Redact(address); strings.Contains(shown, secret) {
			t.Errorf("%s is shown as %s", address, shown)
		}
		for what, err := range map[string]error{"Valid": Valid(address), "Open": opened(address), "OpenMigrator": migrated(address)} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s(%s): %v", what, address, err)
			}
		}
	}
	for address, want := range map[string]string{"sqlite:jobs.db": "sqlite:jobs.db", "jobs.db": "jobs.db", "sqlite:jobs.db?prefix=mail_&key=" + secret: "sqlite:jobs.db?prefix=mail_",
		"http://127.0.0.1:7575": "http://127.0.0.1:7575",
		"postgres://u:" + secret + "@h:5432/d?schema=s&password=x": "postgres://u:xxxxx@h:5432/d?schema=s"} {
		if got := Redact(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}

func opened(address string) error {
	c, err := Open(address)
	if err == nil {
		_ = c.Close()
	}
	return err
}

func migrated(address string) error {
	m, err := OpenMigrator(address)
	if err == nil {
		_ = m.Close()
	}
	return err
}
