package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/proctest"
)

// terminalPair opens a pseudo-terminal. Output of a program to side appears at main. Text written
// to main is typed input.
func terminalPair(t *testing.T) (main, side *os.File) {
	t.Helper()
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { _ = main.Close() })
	number, err := unix.IoctlGetInt(int(main.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if side, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = side.Close() })
	return main, side
}

// TestTopOnATerminal: top draws, follows the size of the terminal, ends with q, and leaves the
// terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	onBoth(t, func(t *testing.T, c *sojourn.Client, url string) {
		enqueueOne(t, c, "a")
		main, side := terminalPair(t)
		size := func(columns, rows uint16) {
			t.Helper()
			if err := unix.IoctlSetWinsize(int(main.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
				t.Fatal(err)
			}
		}
		size(150, 40)
		before, err := unix.IoctlGetTermios(int(side.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(sojournCommand(t), "top", "--every", "100ms", "--store", url)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, os.Stderr
		if err := proctest.Start(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		screen := vt10x.New(vt10x.WithSize(150, 40))
		go func() { _, _ = io.Copy(screen, main) }()
		soon(t, "no picture", func() bool {
			lines := strings.Split(screen.String(), "\n")
			return strings.Contains(lines[1], "QUEUE") && strings.Contains(lines[1], "OLDEST") && strings.Contains(screen.String(), "WORKER") &&
				slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "default ") })
		})
		screen.Resize(30, 3)
		size(30, 3)
		soon(t, "the picture does not shrink with the terminal", func() bool {
			lines := strings.Split(screen.String(), "\n")
			return strings.HasSuffix(strings.TrimSpace(lines[0]), "…") && strings.Contains(lines[2], "lines more")
		})
		if _, err := main.WriteString("xq"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("top ended with %v", err)
		}
		after, err := unix.IoctlGetTermios(int(side.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("the terminal is not as it was: %v\n%+v\n%+v", err, before, after)
		}
		soon(t, "the other screen stays", func() bool {
			screen.Lock()
			defer screen.Unlock()
			return screen.Mode()&vt10x.ModeAltScreen == 0 && screen.CursorVisible()
		})
	})
}
