package cli

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/cmd/sojourn/internal/terminal"
)

// Bits of a file's mode.
const (
	othersRead  fs.FileMode = 0o004
	othersWrite fs.FileMode = 0o022 // the group too
)

// CheckMode looks at the mode of a file with settings or a secret. A file with a secret that others
// can write is refused, as ssh does. All else is a warning: a container gets its secrets as files
// that everybody in it can read.
func (a *App) CheckMode(name string, secret bool) error {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || runtime.GOOS == "windows" {
		return nil // reading the file reports the error; such modes mean nothing
	}
	mode := info.Mode().Perm()
	switch {
	case mode&othersWrite != 0 && secret:
		return sojourn.Invalid("file", "%s holds a secret, and other users can write it (mode %#o); run chmod 600 %[1]s", name, mode)
	case mode&othersWrite != 0:
		a.warnOnce("%s can be written by other users (mode %#o), who can change the behavior of this program; run chmod 644 %[1]s", name, mode)
	case mode&othersRead != 0 && secret:
		a.warnOnce("%s holds a secret, and other users can read it (mode %#o); run chmod 600 %[1]s", name, mode)
	}
	return nil
}

// warnOnce writes a warning that has not been written before.
func (a *App) warnOnce(format string, args ...any) {
	text := terminal.Clean(fmt.Sprintf(format, args...))
	if a.warned[text] {
		return
	}
	if a.warned == nil {
		a.warned = map[string]bool{}
	}
	a.warned[text] = true
	fmt.Fprintln(a.Err, "sojourn: warning: "+text)
}
