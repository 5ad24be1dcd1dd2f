//go:build !linux

package proctest

import (
	"os/exec"
	"syscall"
)

func start(cmd *exec.Cmd) error { return cmd.Start() }

func script(text string, flags []string) (cmd *exec.Cmd, end func(), err error) {
	return bash("", text, flags), func() {}, nil
}

func setDeathSignal(*exec.Cmd, syscall.Signal) {}
