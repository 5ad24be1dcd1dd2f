package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path"
)

// versions has the beginning of the SHA-256 of each file in static.
var versions = func() map[string]string {
	out := map[string]string{}
	names, _ := fs.Glob(files, "static/*")
	for _, name := range names {
		b, _ := files.ReadFile(name)
		sum := sha256.Sum256(b)
		out[path.Base(name)] = hex.EncodeToString(sum[:6])
	}
	return out
}()
