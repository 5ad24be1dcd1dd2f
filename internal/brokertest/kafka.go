package brokertest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kafka is a cluster of one broker inside the test, that syncs each batch to its files.
type Kafka struct {
	Address string // host:port
	dir     string
	ports   []int
	cluster *kfake.Cluster
}

// StartKafka starts one and stops it when the test ends. Topics are made as they are used, with
// three partitions unless others are given.
func StartKafka(t *testing.T, options ...kfake.Opt) *Kafka {
	t.Helper()
	k := &Kafka{dir: t.TempDir()}
	k.Start(t, options...)
	t.Cleanup(k.Stop)
	return k
}

// Start starts it again, with its files and on its port.
func (k *Kafka) Start(t *testing.T, options ...kfake.Opt) {
	t.Helper()
	options = append([]kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(k.dir), kfake.SyncWrites(), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(3),
		kfake.GroupMinSessionTimeout(100e6)}, options...)
	if k.ports != nil {
		options = append(options, kfake.Ports(k.ports...))
	}
	c, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatal(err)
	}
	k.cluster, k.Address = c, c.ListenAddrs()[0]
	if k.ports == nil {
		k.ports = []int{portOf(t, k.Address)}
	}
}

// Stop stops it, and leaves its files.
func (k *Kafka) Stop() { k.cluster.Close() }
