package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sojourn-queue/sojourn/internal/sdkbuild"
)

// sdkLanguages are those whose SDK is in this repository, besides Go.
var sdkLanguages = []string{"python", "typescript"}

// sdkProgram returns the interpreter and the file of a test program of an SDK: scenario, unit or
// faults. It skips the test where the interpreter or the compiler of the language is missing.
func sdkProgram(t *testing.T, language, name string) []string {
	t.Helper()
	if language == "python" {
		return []string{interpreter(t, "python3"), "../../sdk/python/tests/" + name + ".py"}
	}
	return []string{interpreter(t, "node"), filepath.Join(builtTypeScript(t), "test", name+".js")}
}

// typeScript is the folder into which the SDK is compiled, once for all tests.
var typeScript struct {
	build  sync.Once
	folder string
	err    error
}

// builtTypeScript returns the folder of the compiled TypeScript SDK. It skips the test where there
// is no compiler. CI installs it, so there it must be.
func builtTypeScript(t *testing.T) string {
	t.Helper()
	typeScript.build.Do(func() {
		if typeScript.folder, typeScript.err = os.MkdirTemp("", "sojourn-sdk-"); typeScript.err == nil {
			typeScript.err = sdkbuild.TypeScript("../../sdk/typescript", typeScript.folder)
		}
	})
	switch err := typeScript.err; {
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	return typeScript.folder
}

// removeTypeScript removes the folder after all tests.
func removeTypeScript() {
	if typeScript.folder != "" {
		_ = os.RemoveAll(typeScript.folder)
	}
}
