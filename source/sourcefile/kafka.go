package sourcefile

import (
	"crypto/tls"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/source"
	kafkasource "github.com/sojourn-queue/sojourn/source/kafka"
)

// kafka is the table [source.kafka].
type kafka struct {
	Brokers     []string `toml:"brokers"`
	Topics      []string `toml:"topics"`
	Group       string   `toml:"group"`
	Instance    string   `toml:"instance"`
	TLS         bool     `toml:"tls"`
	SASL        string   `toml:"sasl"`
	User        string   `toml:"user"`
	PasswordEnv string   `toml:"password_env"`
}

func (*kafka) name() string   { return "kafka" }
func (k *kafka) from() string { return strings.Join(k.Topics, ",") }

func (k *kafka) options() kafkasource.Options {
	return kafkasource.Options{Brokers: k.Brokers, Topics: k.Topics, Group: k.Group, Instance: k.Instance}
}

func (k *kafka) check() error {
	if _, err := k.mechanism(""); err != nil {
		return err
	}
	if k.SASL != "" && (k.User == "" || k.PasswordEnv == "") {
		return sojourn.Invalid("sasl", "needs user and password_env, the name of an environment variable")
	}
	return k.options().Validate()
}

func (k *kafka) mechanism(password string) (sasl.Mechanism, error) {
	switch k.SASL {
	case "":
		return nil, nil
	case "plain":
		return plain.Auth{User: k.User, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: k.User, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: k.User, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, sojourn.Invalid("sasl", "%.64q is unknown: use plain, scram-sha-256 or scram-sha-512", k.SASL)
}

func (k *kafka) unset() []string {
	if k.SASL != "" && os.Getenv(k.PasswordEnv) == "" {
		return []string{k.PasswordEnv}
	}
	return nil
}

func (k *kafka) open() (source.Broker, error) {
	o := k.options()
	if k.TLS {
		o.Client = append(o.Client, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if k.SASL != "" {
		password := os.Getenv(k.PasswordEnv)
		if password == "" {
			return nil, sojourn.Invalid("password_env", "the environment variable %s is empty", k.PasswordEnv)
		}
		m, err := k.mechanism(password)
		if err != nil {
			return nil, err
		}
		o.Client = append(o.Client, kgo.SASL(m))
	}
	return kafkasource.Open(o)
}
