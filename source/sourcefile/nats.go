package sourcefile

import (
	"github.com/sojourn-queue/sojourn/source"
	natssource "github.com/sojourn-queue/sojourn/source/nats"
)

// nats is the table [source.nats].
type nats struct {
	address
	Credentials string   `toml:"credentials"`
	Stream      string   `toml:"stream"`
	Subjects    []string `toml:"subjects"`
	Durable     string   `toml:"durable"`
	AckWait     length   `toml:"ack_wait"`
	Existing    bool     `toml:"existing"`
}

func (*nats) name() string   { return "nats" }
func (n *nats) from() string { return n.Stream }

func (n *nats) options() natssource.Options {
	return natssource.Options{Credentials: n.Credentials, Stream: n.Stream, Subjects: n.Subjects, Durable: n.Durable, AckWait: n.AckWait.Duration,
		Existing: n.Existing}
}

func (n *nats) check() error {
	if err := n.address.check(); err != nil {
		return err
	}
	return n.options().Validate()
}

func (n *nats) unset() []string {
	missing := n.address.unset()
	if unreadable(n.Credentials) {
		missing = append(missing, n.Credentials)
	}
	return missing
}

func (n *nats) open() (_ source.Broker, err error) {
	o := n.options()
	if o.URL, err = n.get(); err != nil {
		return nil, err
	}
	return natssource.Open(o)
}
