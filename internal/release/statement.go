package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const module = "github.com/sojourn-queue/sojourn"

// bills writes a bill of materials in the form of CycloneDX for each binary: the modules that are
// linked into it, as its build information lists them.
func (r *release) bills() error {
	for _, b := range r.binaries {
		info, err := buildinfo.ReadFile(b.path)
		if err != nil {
			return err
		}
		bill := r.bill(b, info)
		name := fmt.Sprintf("sojourn_%s_%s_%s.cdx.json", r.version, b.os, b.arch)
		err = r.write(name, func(w io.Writer) error {
			return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *release) bill(b binary, info *debug.BuildInfo) *cdx.BOM {
	main := "pkg:golang/" + module + "@v" + r.version
	bill := cdx.NewBOM()
	bill.SerialNumber = serial(r.commit + " " + b.os + "/" + b.arch)
	bill.Metadata = &cdx.Metadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: main, Type: cdx.ComponentTypeApplication, Name: "sojourn", Version: r.version, PackageURL: main,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}},
	}
	components := []cdx.Component{{BOMRef: "pkg:golang/stdlib@" + info.GoVersion[2:], Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: info.GoVersion[2:],
		PackageURL: "pkg:golang/stdlib@" + info.GoVersion[2:]}}
	for _, m := range info.Deps {
		url := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url,
			Properties: &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}})
	}
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	bill.Components = &components
	bill.Dependencies = &[]cdx.Dependency{{Ref: main, Dependencies: &refs}}
	return bill
}

// serial is a UUID that depends only on a text.
func serial(text string) string {
	h := sha256.Sum256([]byte(text))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8, variant of RFC 9562
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// provenance writes an in-toto statement with the predicate of SLSA, which is not signed: it says
// from what the files were made and how, so that a reader can build them again and compare.
func (r *release) provenance() error {
	found, err := r.sums()
	if err != nil {
		return err
	}
	type object = map[string]any
	var subjects []object
	for _, name := range slices.Sorted(maps.Keys(found)) {
		subjects = append(subjects, object{"name": name, "digest": object{"sha256": found[name]}})
	}
	statement := object{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":          "https://" + module + "/make-release/v1",
				"externalParameters": object{"version": r.version, "command": "make release"},
				"internalParameters": object{"go": r.goVersion, "CGO_ENABLED": "0", "flags": "-trimpath -buildvcs=false"},
				"resolvedDependencies": []object{
					{"uri": "git+https://" + module, "digest": object{"gitCommit": r.commit}},
				},
			},
			"runDetails": object{
				"builder":  object{"id": "https://" + module + "/local-build"},
				"metadata": object{"startedOn": r.date.Format(time.RFC3339)},
			},
		},
	}
	return r.write("sojourn_"+r.version+".provenance.json", func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(statement)
	})
}
