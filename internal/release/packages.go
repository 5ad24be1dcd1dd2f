package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const description = `Durable job queue for work that waits on the outside world
 A job sends a request, waits for an answer that comes later, and survives
 crashes and restarts. The command runs a server over HTTP, workers and tools.`

// packages writes a .deb and an .rpm for each processor of Linux.
func (r *release) packages() error {
	pages, err := r.compressedPages()
	if err != nil {
		return err
	}
	for _, b := range r.binaries {
		if b.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			info := r.info(b, pages, format)
			info = nfpm.WithDefaults(info)
			packager, err := nfpm.Get(format)
			if err != nil {
				return err
			}
			if err := nfpm.PrepareForPackager(info, format); err != nil {
				return fmt.Errorf("%s for %s: %w", format, b.arch, err)
			}
			name := fmt.Sprintf("sojourn_%s_linux_%s.%s", r.version, b.arch, format)
			if err := r.write(name, func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// info describes the package of a binary.
func (r *release) info(b binary, pages []string, format string) *nfpm.Info {
	deploy := func(name string) string { return filepath.Join(r.root, "internal", "release", "deploy", "linux", name) }
	completion := func(shell string) string { return filepath.Join(r.work, "completions", shells[shell]) }
	info := &nfpm.Info{
		Name: "sojourn", Arch: b.arch, Platform: "linux", Version: r.version, Release: "1", Section: "utils", Priority: "optional",
		Maintainer: "The Sojourn authors <maintainers@sojourn-queue.invalid>", Description: description, Vendor: "Sojourn",
		Homepage: "https://github.com/sojourn-queue/sojourn", License: "Apache-2.0", DisableGlobbing: true, MTime: r.date,
	}
	info.RPM.BuildHost = "localhost"
	info.RPM.Summary = "Durable job queue for work that waits on the outside world"
	if format == "rpm" {
		info.Depends = []string{"shadow-utils"}
	} else {
		info.Depends = []string{"passwd"}
	}
	info.Recommends = []string{"ca-certificates"}
	info.Scripts = nfpm.Scripts{PostInstall: deploy("postinstall.sh"), PreRemove: deploy("preremove.sh"), PostRemove: deploy("postremove.sh")}
	add := func(source, destination string, mode os.FileMode, kind string) {
		info.Contents = append(info.Contents, &files.Content{Source: source, Destination: destination, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}})
	}
	add(b.path, "/usr/bin/sojourn", 0o755, files.TypeFile)
	add(deploy("sojourn.service"), "/usr/lib/systemd/system/sojourn.service", 0o644, files.TypeFile)
	add(deploy("sysusers.conf"), "/usr/lib/sysusers.d/sojourn.conf", 0o644, files.TypeFile)
	add(deploy("sojourn.toml"), "/etc/sojourn/sojourn.toml", 0o640, files.TypeConfigNoReplace)
	add(completion("bash"), "/usr/share/bash-completion/completions/sojourn", 0o644, files.TypeFile)
	add(completion("zsh"), "/usr/share/zsh/site-functions/_sojourn", 0o644, files.TypeFile)
	add(completion("fish"), "/usr/share/fish/vendor_completions.d/sojourn.fish", 0o644, files.TypeFile)
	add(filepath.Join(r.root, "LICENSE"), "/usr/share/doc/sojourn/copyright", 0o644, files.TypeFile)
	add(filepath.Join(r.root, "CHANGELOG.md"), "/usr/share/doc/sojourn/CHANGELOG.md", 0o644, files.TypeFile)
	for _, p := range pages {
		add(p, "/usr/share/man/man1/"+filepath.Base(p), 0o644, files.TypeFile)
	}
	return info
}

// compressedPages are the manual pages in the form in which Linux installs them.
func (r *release) compressedPages() ([]string, error) {
	pages, err := filepath.Glob(filepath.Join(r.work, "man", "*.1"))
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(r.work, "man.gz")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	var made []string
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(folder, filepath.Base(p)+".gz")
		f, err := os.Create(name)
		if err != nil {
			return nil, err
		}
		z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
		if err == nil {
			if _, err = z.Write(text); err == nil {
				err = z.Close()
			}
		}
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return nil, err
		}
		made = append(made, name)
	}
	return made, nil
}
