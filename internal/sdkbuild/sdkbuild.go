// Package sdkbuild compiles the TypeScript SDK for tests. Its compiled files are not committed.
package sdkbuild

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// TypeScript compiles the SDK in the folder sdk. The folder out then has its package.json, dist and
// test, as the clone has them after npm install. If there is no compiler, the error wraps
// [exec.ErrNotFound].
func TypeScript(sdk, out string) error {
	tsc, err := exec.LookPath("tsc")
	if err != nil {
		return fmt.Errorf("the TypeScript SDK needs the compiler tsc: install the package node-typescript of Debian, or run npm install -g typescript@5: %w", err)
	}
	if log, err := exec.Command(tsc, "-p", sdk, "--outDir", filepath.Join(out, "dist")).CombinedOutput(); err != nil {
		return fmt.Errorf("tsc: %w\n%s", err, log)
	}
	if err := os.CopyFS(filepath.Join(out, "test"), os.DirFS(filepath.Join(sdk, "test"))); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(sdk, "package.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "package.json"), b, 0o600)
}
