package brokertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sojourn-queue/sojourn/internal/pgtest"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// RabbitMQ is a node for one test, run from Debian's programs, with its own ports, files and port
// mapper. RabbitMQ would run as root, but a root process becomes the user nobody all the same.
type RabbitMQ struct {
	URL        string
	dir        string
	port, dist int
	mapper     int // port of epmd
	node       *exec.Cmd
}

const rabbitmqServer = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// StartRabbitMQ starts a node and its port mapper, and stops both when the test ends. Without
// RabbitMQ the test is skipped, and fails in CI.
func StartRabbitMQ(t *testing.T) *RabbitMQ {
	t.Helper()
	epmd := proctest.LookPath(t, "epmd")
	proctest.LookPath(t, rabbitmqServer)
	dir, err := os.MkdirTemp("", "sojourn-rabbitmq-") // the user nobody cannot read the folder of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &RabbitMQ{dir: dir, port: freePort(t), dist: freePort(t), mapper: freePort(t)}
	r.URL = fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", r.port)
	_, chown := pgtest.Unprivileged()
	if err := chown(dir); err != nil {
		t.Fatal(err)
	}
	mapper := r.command(epmd, "-port", fmt.Sprint(r.mapper), "-address", "127.0.0.1")
	if err := proctest.Start(mapper); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mapper.Process.Kill(); mapper.Wait() })
	r.Start(t)
	t.Cleanup(r.Kill)
	return r
}

// command prepares a program that runs as the user nobody, with the environment that it needs.
func (r *RabbitMQ) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.SysProcAttr, _ = pgtest.Unprivileged()
	in := func(name string) string { return filepath.Join(r.dir, name) }
	c.Dir, c.Env = r.dir, []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + r.dir,
		fmt.Sprintf("RABBITMQ_NODENAME=sojourn-%d@localhost", r.port), "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		fmt.Sprintf("RABBITMQ_NODE_PORT=%d", r.port), fmt.Sprintf("RABBITMQ_DIST_PORT=%d", r.dist),
		fmt.Sprintf("ERL_EPMD_PORT=%d", r.mapper), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + in("data"), "RABBITMQ_LOG_BASE=" + in("log"), "RABBITMQ_LOGS=-", "RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"), "RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + in("advanced.config"),
		"RABBITMQ_CONF_ENV_FILE=" + in("env"), "RABBITMQ_GENERATED_CONFIG_DIR=" + in("generated"), "RABBITMQ_FEATURE_FLAGS_FILE=" + in("flags"),
		"RUNNING_UNDER_SYSTEMD=true", // the script becomes the node, so its process is the one to kill
	}
	return c
}

// Start starts the node, or starts it again with its files, and waits until it answers.
func (r *RabbitMQ) Start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	node := r.command(rabbitmqServer)
	node.Stdout, node.Stderr = log, log
	if err := proctest.Start(node); err != nil {
		t.Fatal(err)
	}
	r.node = node
	const tick = 50 * time.Millisecond
	for range 3 * patience / tick {
		if conn, err := amqp.DialConfig(r.URL, amqp.Config{Dial: amqp.DefaultDial(time.Second)}); err == nil {
			conn.Close()
			return
		}
		time.Sleep(tick)
	}
	text, _ := os.ReadFile(filepath.Join(r.dir, "out"))
	t.Fatalf("the node does not start:\n%s", text[max(len(text)-4000, 0):])
}

// Stop shuts the node down cleanly. After a Kill a node once restarted without a queue that had
// been declared just before; internal/outage kills a node whose queue is older.
func (r *RabbitMQ) Stop(t *testing.T) {
	t.Helper()
	if err := r.node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(3*patience, func() { r.node.Process.Kill() })
	defer late.Stop()
	r.node.Wait()
	r.node = nil
}

// Kill is kill -9. Nothing of the node is left when it returns but its files.
func (r *RabbitMQ) Kill() {
	if r.node != nil {
		r.node.Process.Kill()
		r.node.Wait()
		r.node = nil
	}
}

// freePort returns a port that is free at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
