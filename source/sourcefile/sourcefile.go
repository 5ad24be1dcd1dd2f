// Package sourcefile reads sources from a file in TOML. It links the client of every broker, and
// CEL; a program that uses one broker builds its source in Go instead.
//
//	[[source]]
//	name = "bank"
//	key  = 'body.order'
//	kind = '"charge_card"'
//
//	[source.nats]
//	stream = "REPLIES"
//
// docs/guides/sources.md describes all fields.
package sourcefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	"github.com/sojourn-queue/sojourn/source/webhook"
	"github.com/sojourn-queue/sojourn/throttle/rule"
)

// Source is one source of a file. Its rules are compiled.
type Source struct {
	Options source.Options                // without Logger and Observe
	Rules   rule.Match                    // as they stand in the file
	Broker  string                        // such as "nats", or "webhook"
	From    string                        // the stream, topic, queue or path
	Open    func() (source.Broker, error) // see the Open of the broker's package; nil of a webhook
	// Endpoint returns the endpoint of a webhook, with its secrets; nil for a broker. Without
	// rules, the sender names kind and key in the path, and Options.Match is nil.
	Endpoint func() (webhook.Endpoint, error)
	// Signature is the header that has the signature, or the secret, of a webhook; empty of a
	// broker.
	Signature string
	Kinds     []string // those that a webhook may answer

	door   *door  // of a webhook
	broker opener // else
}

// Unset lists the environment variables and files with secrets that the source needs and that are
// empty or cannot be read now: with one of them Open, or Endpoint, fails.
func (s Source) Unset() []string {
	if s.door != nil {
		return s.door.unset(os.Getenv)
	}
	return s.broker.unset()
}

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// Load reads a file. Errors name it, and line and column in it.
func Load(name string) ([]Source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, sojourn.Invalid("file", "%v", err)
	}
	if len(text) > maxFile {
		return nil, sojourn.TooLarge("file", len(text), maxFile)
	}
	return Parse(name, text)
}

// table is one [[source]].
type table struct {
	Name     string    `toml:"name"`
	Batch    int       `toml:"batch"`
	TTL      length    `toml:"ttl"`
	When     string    `toml:"when"`
	Kind     string    `toml:"kind"`
	Key      string    `toml:"key"`
	ID       string    `toml:"id"`
	OK       string    `toml:"ok"`
	Reason   string    `toml:"reason"`
	Error    string    `toml:"error"`
	Progress string    `toml:"progress"`
	Body     string    `toml:"body"`
	NATS     *nats     `toml:"nats"`
	Kafka    *kafka    `toml:"kafka"`
	RabbitMQ *rabbitmq `toml:"rabbitmq"`
	Webhook  *door     `toml:"webhook"`
}

func (t table) rules() rule.Match {
	return rule.Match{When: t.When, Kind: t.Kind, Key: t.Key, ID: t.ID, OK: t.OK, Reason: t.Reason, Error: t.Error, Progress: t.Progress, Body: t.Body}
}

// opener is the part of a table that names a broker.
type opener interface {
	name() string
	from() string
	check() error
	unset() []string // environment variables and files that are missing
	open() (source.Broker, error)
}

func (t table) brokers() (all []opener) {
	if t.NATS != nil {
		all = append(all, t.NATS)
	}
	if t.Kafka != nil {
		all = append(all, t.Kafka)
	}
	if t.RabbitMQ != nil {
		all = append(all, t.RabbitMQ)
	}
	return all
}

// names of the brokers, for people.
const names = "nats, kafka, rabbitmq or webhook"

// length is a duration such as "30s".
type length struct{ time.Duration }

// UnmarshalText parses a duration as time.ParseDuration does.
func (l *length) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.64q is not a duration such as \"30s\" or \"1h30m\"", text)
	}
	l.Duration = d
	return nil
}

// Parse reads the text of a file; name is for errors.
func Parse(name string, text []byte) ([]Source, error) {
	var file struct {
		Source []table `toml:"source"`
	}
	d := toml.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, decoding(name, err)
	}
	if len(file.Source) == 0 {
		return nil, sojourn.Invalid("file", "%s has no [[source]]", name)
	}
	where := placesOf(text)
	var out []Source
	seen, paths := map[string]bool{}, map[string]string{}
	for i, t := range file.Source {
		s, err := t.source()
		if err == nil && seen[t.Name] {
			err = sojourn.Invalid("name", "%q is the name of another source of the file; message ids are unique within a name", t.Name)
		}
		if s.Endpoint != nil && s.Options.Match != nil && err == nil {
			if other := paths[s.From]; other != "" {
				err = sojourn.Invalid("webhook.path", "%s is the path of %q already", s.From, other)
			}
			paths[s.From] = t.Name
		}
		if err != nil {
			return nil, where.locate(name, i, err)
		}
		seen[t.Name] = true
		out = append(out, s)
	}
	return out, nil
}

// nobody checks options without a store or a broker.
type nobody struct {
	source.Responder
	source.Broker
}

func (t table) source() (s Source, err error) {
	all := t.brokers()
	if n := len(all); t.Webhook != nil && n > 0 || t.Webhook == nil && n != 1 {
		if t.Webhook != nil {
			n++
		}
		return s, sojourn.Invalid("source", "%q has %d brokers; give it exactly one of the tables %s", t.Name, n, names)
	}
	if t.Webhook != nil {
		return t.webhook()
	}
	s = Source{Rules: t.rules()}
	if s.Options.Match, err = rule.Matcher(s.Rules); err != nil {
		return s, err
	}
	s.Options.Name, s.Options.Batch, s.Options.TTL = t.Name, t.Batch, t.TTL.Duration
	if _, err := source.New(nobody{}.Responder, nobody{}.Broker, s.Options); err != nil {
		return s, err
	}
	s.Broker, s.From, s.Open, s.broker = all[0].name(), all[0].from(), all[0].open, all[0]
	if e, ok := errors.AsType[*sojourn.Error](all[0].check()); ok {
		return s, sojourn.Invalid(s.Broker+"."+e.Field, "%s", e.Message)
	}
	return s, nil
}

// webhook returns a source without a broker: the sender calls it.
func (t table) webhook() (s Source, err error) {
	d := *t.Webhook
	s = Source{Rules: t.rules(), Broker: "webhook", From: d.path(t.Name, t.rules()), Signature: signatureHeaders[d.Signature], Kinds: d.Kinds, door: &d}
	if t.Batch != 0 {
		return s, sojourn.Invalid("batch", "a webhook receives one message at a time; remove batch")
	}
	checked, err := d.endpoint(t.Name, t.TTL.Duration, s.Rules, nil)
	if e, ok := errors.AsType[*sojourn.Error](err); ok && !slices.Contains(ofSource, e.Field) {
		return s, sojourn.Invalid("webhook."+e.Field, "%s", e.Message)
	}
	s.Options = source.Options{Name: t.Name, TTL: t.TTL.Duration, Match: checked.Match}
	s.Endpoint = func() (webhook.Endpoint, error) { return d.endpoint(t.Name, t.TTL.Duration, s.Rules, os.Getenv) }
	return s, err
}

// ofSource are the fields of [[source]] about which an endpoint may complain.
var ofSource = []string{"name", "ttl", "when", "kind", "key", "id", "ok", "reason", "error", "progress", "body"}

// signatureHeaders are where senders put their signature.
var signatureHeaders = map[string]string{"standard": "webhook-signature", "github": "x-hub-signature-256", "stripe": "stripe-signature", bearer: "authorization"}

// decoding turns errors about the form of the file into ones with a place.
func decoding(name string, err error) error {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		row, column := strict.Errors[0].Position()
		return sojourn.Invalid("file", "%s:%d:%d: there is no field %s", name, row, column, strings.Join(strict.Errors[0].Key(), "."))
	}
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := e.Position()
		return sojourn.Invalid("file", "%s:%d:%d: %s", name, row, column, strings.TrimPrefix(e.Error(), "toml: "))
	}
	return sojourn.Invalid("file", "%s: %v", name, err)
}

// address is a URL, or the environment variable that has it, so that a file need not hold
// passwords.
type address struct {
	URL string `toml:"url"`
	Env string `toml:"url_env"`
}

func (a address) check() error {
	if a.URL != "" && a.Env != "" {
		return sojourn.Invalid("url", "give url or url_env, not both")
	}
	return nil
}

func (a address) unset() []string {
	if a.Env != "" && os.Getenv(a.Env) == "" {
		return []string{a.Env}
	}
	return nil
}

// unreadable reports whether there is a name of a file and nothing to read in it.
func unreadable(file string) bool {
	if file == "" {
		return false
	}
	text, err := os.ReadFile(file)
	return err != nil || len(bytes.TrimSpace(text)) == 0
}

func (a address) get() (string, error) {
	if a.Env == "" {
		return a.URL, nil
	}
	url := os.Getenv(a.Env)
	if url == "" {
		return "", sojourn.Invalid("url_env", "the environment variable %s is empty", a.Env)
	}
	return url, nil
}
