package sourcefile

import (
	"github.com/sojourn-queue/sojourn/source"
	rabbitsource "github.com/sojourn-queue/sojourn/source/rabbitmq"
)

// rabbitmq is the table [source.rabbitmq].
type rabbitmq struct {
	address
	Queue    string `toml:"queue"`
	Prefetch int    `toml:"prefetch"`
}

func (*rabbitmq) name() string   { return "rabbitmq" }
func (r *rabbitmq) from() string { return r.Queue }

func (r *rabbitmq) check() error {
	if err := r.address.check(); err != nil {
		return err
	}
	return rabbitsource.Options{URL: r.URL, Queue: r.Queue, Prefetch: r.Prefetch}.Validate()
}

func (r *rabbitmq) open() (source.Broker, error) {
	url, err := r.get()
	if err != nil {
		return nil, err
	}
	return rabbitsource.Open(rabbitsource.Options{URL: url, Queue: r.Queue, Prefetch: r.Prefetch})
}
