package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sojourn-queue/sojourn"
)

// terminalPair is a terminal: what a program prints to side appears at main, and what is written to main is typed.
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

// TestTopOnATerminal: top draws, follows the size of the terminal, ends with q, and leaves the terminal as it was.
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
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		var mu sync.Mutex // guards shown
		var shown strings.Builder
		go func() {
			b := make([]byte, 4096)
			for {
				n, err := main.Read(b)
				mu.Lock()
				shown.Write(b[:n])
				mu.Unlock()
				if err != nil {
					return
				}
			}
		}()
		// last is what was drawn last.
		last := func() string {
			mu.Lock()
			defer mu.Unlock()
			frames := strings.Split(shown.String(), "\x1b[H")
			return frames[len(frames)-1]
		}
		soon(t, "no picture", func() bool { return strings.Contains(last(), "OLDEST") && strings.Contains(last(), "WORKER") })
		size(30, 3)
		soon(t, "the picture does not shrink with the terminal", func() bool { return strings.Contains(last(), "…") && strings.Contains(last(), "lines more") })
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
		soon(t, "the other screen stays", func() bool { return strings.HasSuffix(last(), "\x1b[?25h\x1b[?1049l") })
	})
}
