// Package docs has the files of the documentation, for the site that "sojourn docs" shows.
package docs

import "embed"

// Files has the pages as Markdown and their pictures. README.md is the first page.
//
//go:embed *.md decisions guides internals reference ui
var Files embed.FS
