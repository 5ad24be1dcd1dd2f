package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sojourn-queue/sojourn"
)

// Valid checks the form of an address, and the names in it, without a connection. The error is an
// *sojourn.Error with CodeInvalid and shows no password.
func Valid(address string) error {
	o, err := newOptions(nil)
	if err == nil {
		_, err = o.from(address)
	}
	return err
}

// tableParameters are the parameters of an address that set the schema and prefix of the tables,
// with their options.
var tableParameters = []struct {
	name   string
	option func(string) Option
	of     func(*options) *string
}{
	{"schema", Schema, func(o *options) *string { return &o.schema }},
	{"prefix", Prefix, func(o *options) *string { return &o.prefix }},
}

// from adds the settings of an address for the tables and the number of connections.
func (o options) from(address string) (options, error) {
	cfg, own, err := parse(address)
	if err != nil {
		return o, err
	}
	defaults, err := newOptions(nil)
	if err != nil {
		return o, err
	}
	for _, p := range tableParameters {
		value, ok := own[p.name]
		if !ok || value == "" {
			continue
		}
		if given := *p.of(&o); given != *p.of(&defaults) && given != value {
			return o, sojourn.Invalid("url", "has the %s %.64q, and the option says %.64q; use one of them", p.name, value, given)
		}
		p.option(value)(&o)
	}
	if _, ok := own["pool_max_conns"]; ok {
		if o.split, err = splitOf(int(cfg.MaxConns)); err != nil {
			return o, err
		}
	}
	return o, o.check()
}

// parse reads an address in one of its three forms. own are the parameters that are not the
// server's. An error shows no password.
func parse(address string) (cfg *pgxpool.Config, own map[string]string, err error) {
	if strings.HasPrefix(strings.TrimSpace(address), "{") {
		if address, err = keywords(address); err != nil {
			return nil, nil, err
		}
	}
	plain, err := pgx.ParseConfig(address)
	if err == nil {
		cfg, err = pgxpool.ParseConfig(address)
	}
	if err != nil {
		return nil, nil, sojourn.Invalid("url", "%s; use postgres://user:password@host:port/database", withoutValues(address, err))
	}
	own = map[string]string{}
	for _, name := range []string{"schema", "prefix", "pool_max_conns"} {
		if value, ok := plain.RuntimeParams[name]; ok {
			own[name] = value
		}
		delete(cfg.ConnConfig.RuntimeParams, name)
	}
	return cfg, own, nil
}

var (
	wholeAddress = regexp.MustCompile("(?s)^cannot parse `.*`: ")
	quotedValue  = regexp.MustCompile("(?s)[\"`'].*[\"`']")
)

// withoutValues returns the driver's error about an address, without any part of the address: in a
// malformed one a password can look like a port or a host.
func withoutValues(address string, err error) string {
	if strings.Contains(address, "://") {
		if _, malformed := url.Parse(address); malformed != nil {
			return "is no URL: characters of the password other than letters and digits are written as %XX"
		}
	}
	return "cannot be used: " + quotedValue.ReplaceAllString(wholeAddress.ReplaceAllString(err.Error(), ""), "…")
}

// keywords turns a JSON object with connection parameters into the form "host=… port=…". db is
// another name for dbname.
func keywords(text string) (string, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil || d.More() { // the error text may show the password
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
