package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/proctest"
	"github.com/sojourn-queue/sojourn/store"
)

// TestDrainedWorkersOfAllLanguagesEnd: a worker that an operator drains ends by itself, without an
// error (spec:W3), and leaves the list (spec:W12).
func TestDrainedWorkersOfAllLanguagesEnd(t *testing.T) {
	for name, program := range map[string]struct{ file, text string }{
		"python3": {"w.py", `import sys, sojourn
worker = sojourn.Worker(sojourn.Client(sys.argv[1]))
worker.handle("k", lambda job: None)
worker.run()
`},
		"node": {"w.mjs", `import { Client, Worker } from "@sojourn-queue/sojourn";
const worker = new Worker(new Client(process.argv[2]));
worker.handle("k", async () => {});
await worker.run();
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, folder := interpreter(t, name), t.TempDir()
			s := serve(t, "--store", "sqlite:"+filepath.Join(folder, "jobs.db"))
			if err := os.WriteFile(filepath.Join(folder, program.file), []byte(program.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "node" {
				installTypeScript(t, folder)
			}
			cmd := exec.CommandContext(t.Context(), path, program.file, s.url)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "PYTHONPATH="+absolute(t, "../../sdk/python"), "PYTHONDONTWRITEBYTECODE=1")
			cmd.Stderr = os.Stderr
			if err := proctest.Start(cmd); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			c, err := store.Open(s.url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			k := c.Store()
			soon(t, "the worker is not listed", func() bool {
				ws, err := k.Workers(t.Context(), "", 0)
				return err == nil && len(ws) == 1 && k.DrainWorker(t.Context(), ws[0].Worker) == nil
			})
			if err := cmd.Wait(); err != nil {
				t.Errorf("the worker ended with %v", err)
			}
			if ws, err := k.Workers(t.Context(), "", 0); err != nil || len(ws) > 0 {
				t.Errorf("after its end the list has %v, %v", ws, err)
			}
		})
	}
}
