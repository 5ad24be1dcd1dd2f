//go:build unix

package pgtest

import (
	"io"
	"os/exec"
	"syscall"
)

// guard is a process that ends the server of a folder when this test process has ended, even by
// kill -9.
type guard struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// guardScript waits for the end of its input, which only this process holds open. It kills a
// process only if its command line names the folder: the id in postmaster.pid may belong to another
// process by now.
const guardScript = `read -r line && exit
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
case "$(ps -o args= -p "${pid:-0}" 2>/dev/null)" in *"$1"*) kill -QUIT "$pid"; sleep 6; kill -KILL "$pid" ;; esac
rm -rf "$1"`

func watchOver(dir string) (*guard, error) {
	g := &guard{cmd: exec.Command("sh", "-c", guardScript, "sh", dir)}
	// A session of its own: an interrupt from the terminal is for the test alone.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if g.stdin, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return g, g.cmd.Start()
}

// end lets the guard go: the server has been stopped.
func (g *guard) end() {
	if g == nil || g.cmd.Process == nil {
		return
	}
	io.WriteString(g.stdin, "done\n")
	g.stdin.Close()
	g.cmd.Wait()
}
