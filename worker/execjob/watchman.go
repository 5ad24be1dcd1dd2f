package execjob

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// watchman is a guard shell beside the worker. It knows the live process groups. When its standard
// input ends, the worker is gone for any reason: then it kills the groups and removes the folder of
// the runs. Without it, a job of a killed worker would run elsewhere while processes of the first
// program continue. After an orderly end of the worker it only removes the folder.
type watchman struct {
	parent string // where the folder is made; "" is the system's default

	mu     sync.Mutex // guards the fields below
	folder string     // "" until the first run
	cmd    *exec.Cmd
	in     *os.File // nil while no shell runs
	live   map[int]bool
}

const shell = "/bin/sh"

// The shell needs no program but kill and rm. Killed processes may still write for a moment, so
// files that could not be removed are removed once more.
const watch = `trap '' HUP INT TERM QUIT
live=' '
while read -r what group; do
	case $what in
	+) live="$live$group " ;;
	-) live="${live%% $group *} ${live#* $group }" ;;
	esac
done
for group in $live; do kill -s KILL -- "-$group"; done 2>/dev/null
rm -rf -- "$1" 2>/dev/null || { sleep 1; rm -rf -- "$1"; }
`

// runFolder makes a folder for a run, and starts the watchman if there is none.
func (m *watchman) runFolder() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.makeFolder(); err != nil {
		return "", err
	}
	if m.in == nil {
		if err := m.start(); err != nil {
			return "", fmt.Errorf("cannot start the process that ends the program if the worker dies: %w", err)
		}
	}
	return os.MkdirTemp(m.folder, "run-")
}

// makeFolder makes the folder of the runs, and makes it again after its removal: some programs
// remove old files from /tmp. m.mu is held.
func (m *watchman) makeFolder() error {
	if m.folder == "" {
		parent, err := filepath.Abs(cmp.Or(m.parent, os.TempDir()))
		if err != nil {
			return err
		}
		m.folder, err = os.MkdirTemp(parent, "sojourn-work-")
		return err
	}
	if _, err := os.Lstat(m.folder); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Mkdir(m.folder, 0o700)
}

// start starts the shell and sends it the live groups. m.mu is held.
func (m *watchman) start() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	m.cmd = &exec.Cmd{Path: shell, Args: []string{"sh", "-c", watch, "sh", m.folder}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Stdin: r, SysProcAttr: ownSession()}
	if err := m.cmd.Start(); err != nil {
		w.Close()
		return err
	}
	m.in = w
	for group := range m.live {
		m.tell("+", group)
	}
	return nil
}

// tell writes a line to the shell; the next run replaces a killed shell. m.mu is held.
func (m *watchman) tell(what string, group int) {
	if m.in == nil {
		return
	}
	if _, err := fmt.Fprintln(m.in, what, group); err != nil {
		_ = m.stop()
	}
}

func (m *watchman) add(group int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[group] = true
	m.tell("+", group)
}

func (m *watchman) remove(group int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, group)
	m.tell("-", group)
}

// stop ends the shell, which kills the live groups and removes the folder. m.mu is held.
func (m *watchman) stop() error {
	if m.in == nil {
		return nil
	}
	m.in.Close()
	m.in = nil
	return m.cmd.Wait()
}
