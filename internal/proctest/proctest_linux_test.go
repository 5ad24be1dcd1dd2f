package proctest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// childEnv makes the test binary a process that starts children and waits to be killed.
const childEnv = "SOJOURN_TEST_CHILDREN"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	sleep := exec.Command("sleep", "1000")
	jobs, end, err := script("sleep 1000 & echo started; sleep 1000", []string{"-m"}) // with -m each job has its own process group
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, cmd := range []*exec.Cmd{sleep, jobs} {
		cmd.Stdout = os.Stdout // the reader sees the end of the output when all of them have ended
		if err := Start(cmd); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	syscall.Pause()
	end()
}

// TestChildrenEnd kills a process with kill -9: its child ends, and its script with the background
// job of the script.
func TestChildrenEnd(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		Missing(t, err.Error())
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	if line, err := out.ReadString('\n'); line != "started\n" {
		t.Fatalf("the process said %q: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out) // ends with the last process that has the pipe
	if err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("%q, %v", rest, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended before it was killed")
	}
}

// TestThreadsEnd: a child outlives the thread whose goroutine asked for it.
func TestThreadsEnd(t *testing.T) {
	cmd := exec.Command("cat")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	started := make(chan error)
	tid := onThread(func() { started <- Start(cmd) })
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	for syscall.Tgkill(os.Getpid(), tid, 0) == nil {
		runtime.Gosched()
	}
	if _, err := io.WriteString(in, "alive\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "alive\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// onThread runs f in a thread that ends after it, and returns the id of the thread. The first
// thread of a process never ends, so another one is found.
func onThread(f func()) int {
	ids := make(chan int)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine if that is never unlocked
		tid := syscall.Gettid()
		if tid == os.Getpid() {
			ids <- onThread(f)
			runtime.UnlockOSThread()
			return
		}
		ids <- tid
		f()
	}()
	return <-ids
}
