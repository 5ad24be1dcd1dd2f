package sqlite

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/migration/migrationtest"
	"github.com/sojourn-queue/sojourn/internal/proctest"
	"github.com/sojourn-queue/sojourn/internal/sqldb"
	"github.com/sojourn-queue/sojourn/internal/sqlstore/ticktest"
)

// The test binary is also the second process of the tests: child starts it again with a command.
func TestMain(m *testing.M) {
	if command := os.Getenv("SOJOURN_TEST_COMMAND"); command != "" {
		if err := runChild(strings.Fields(command), os.Getenv("SOJOURN_TEST_PATH")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild prints "ready OWNER", then obeys: write FROM N inserts rows, each in a transaction, and
// prints "wrote ID" after each; corrupt overwrites the middle of the file; hold does nothing. Then
// it waits for the end of its input.
func runChild(command []string, path string) error {
	switch command[0] {
	case "corrupt":
		return corrupt(path)
	case "backup", "restore", "compact":
		return tendChild(command, path)
	case "ticks":
		return ticktest.Node(os.Stdin, os.Stdout, func(now func() time.Time) (*sojourn.Client, error) { return Open(path, Clock(now), Relaxed()) })
	case "act":
		return actChild(path, command[1])
	case "migrate":
		return migrationtest.Child(migrations(path), strings.Join(command, " "))
	}
	d, err := openDB(path, options{})
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, cancel := contextFor(time.Minute)
	defer cancel()
	err = d.Update(ctx, func(c sqldb.Conn) error { _, err := c.Exec(testTable); return err })
	if err != nil {
		return err
	}
	fmt.Println("ready", d.OwnerID())
	if command[0] == "write" {
		var from, n int
		fmt.Sscan(command[1]+" "+command[2], &from, &n)
		for id := from; id < from+n; id++ {
			err := d.Update(ctx, func(c sqldb.Conn) error {
				_, err := c.Exec("insert into sj_t (id, name, body) values ($1, $2, zeroblob(2000))", id, fmt.Sprint("row ", id))
				return err
			})
			if err != nil {
				return err
			}
			fmt.Println("wrote", id)
		}
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func corrupt(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	for at := int64(8192); at < info.Size(); at += 4096 {
		if _, err := f.WriteAt([]byte(strings.Repeat("\xa5", 200)), at); err != nil {
			return err
		}
	}
	return f.Sync()
}

type process struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func child(t *testing.T, path, command string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SOJOURN_TEST_COMMAND="+command, "SOJOURN_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := proctest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, stdin, bufio.NewScanner(stdout)}
	t.Cleanup(func() { p.kill() })
	return p
}

// read returns the rest of the child's next line after word, with which it must begin.
func (p *process) read(t *testing.T, word string) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the child ended before it said %q: %v", word, p.lines.Err())
	}
	rest, ok := strings.CutPrefix(p.lines.Text(), word)
	if !ok {
		t.Fatalf("the child says %q, not %q", p.lines.Text(), word)
	}
	return strings.TrimSpace(rest)
}

// kill is kill -9.
func (p *process) kill() {
	p.Process.Kill()
	p.Wait()
}

// end lets the child close its store and leave.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stdin.Close()
	for p.lines.Scan() {
		if strings.HasPrefix(p.lines.Text(), "error") {
			t.Error("child:", p.lines.Text())
		}
	}
	if err := p.Wait(); err != nil {
		t.Error("child:", err)
	}
}
