package server

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// TestSpecificationIsFresh holds the committed description against the routes and types.
func TestSpecificationIsFresh(t *testing.T) {
	made, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", made, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(made, specification()) {
		t.Error("openapi.json is not what the routes say: run go generate ./httpapi/server")
	}
}
