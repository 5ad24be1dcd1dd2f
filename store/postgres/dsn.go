package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sojourn-queue/sojourn"
)

// parse reads an address in one of its three forms. An error shows no password.
func parse(address string) (*pgxpool.Config, error) {
	if strings.HasPrefix(strings.TrimSpace(address), "{") {
		var err error
		if address, err = keywords(address); err != nil {
			return nil, err
		}
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, sojourn.Invalid("url", "%v; use postgres://user:password@host:port/database", err)
	}
	return cfg, nil
}

// keywords turns a JSON object with connection parameters into the form "host=… port=…". db is another name for dbname.
func keywords(text string) (string, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return "", sojourn.Invalid("url", "begins like a JSON object and is none; use {\"host\": …, \"port\": …, \"db\": …, \"user\": …}")
	}
	var words []string
	for name, v := range object {
		switch v.(type) {
		case string, json.Number:
		default:
			return "", sojourn.Invalid("url", "%.64q is neither a text nor a number", name)
		}
		if !plainName.MatchString(name) {
			return "", sojourn.Invalid("url", "%.64q is no name of a connection parameter", name)
		}
		if name == "db" {
			name = "dbname"
		}
		value := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(fmt.Sprint(v))
		words = append(words, name+"='"+value+"'")
	}
	return strings.Join(words, " "), nil
}
