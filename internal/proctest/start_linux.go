package proctest

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starts has the commands for the thread that starts all of them. Linux sends the signal when the
// thread that started the child ends, not the process, and Go ends threads. This one stays.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

func start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil || cmd.SysProcAttr.Pdeathsig == 0 {
		setDeathSignal(cmd, syscall.SIGKILL)
	}
	done := make(chan error)
	starts() <- func() { done <- cmd.Start() }
	return <-done
}

// watch starts a process in the script's session. It waits for the end of file descriptor 3, whose
// other end only the test process has, and then kills the session: with set -m each job has a
// process group of its own, so a group is not enough.
const watch = `{
	trap '' HUP INT TERM
	read -r <&3
	for round in 1 2; do # the first may overlook what is started meanwhile
		for stat in /proc/[0-9]*/stat; do
			read -r line <"$stat" || continue
			set -- ${line##*) } # state, parent, group, session
			pid=${stat#/proc/}
			pid=${pid%/stat}
			[ "$4" = $$ ] && [ "$pid" != $BASHPID ] && kill -KILL "$pid"
		done
	done
} >/dev/null 2>&1 &
disown
exec 3<&-
`

func script(text string, flags []string) (cmd *exec.Cmd, end func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd = bash(watch, text, flags)
	cmd.ExtraFiles = []*os.File{r} // file descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, func() { w.Close(); r.Close() }, nil
}

func setDeathSignal(cmd *exec.Cmd, s syscall.Signal) {
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr // commands may share it
	}
	attr.Pdeathsig = s
	cmd.SysProcAttr = &attr
}
