package calendar

import (
	"archive/zip"
	"bytes"
	_ "embed" // the zone rules
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// TZVersion is the release of the IANA time zone database in zoneinfo.zip, which is
// lib/time/zoneinfo.zip of Go 1.26.8. Its version stands there in lib/time/update.bash (CODE). To
// renew it, copy the file of a newer Go and set both names here; TestTZVersion compares.
const TZVersion = "2025c"

//go:embed zoneinfo.zip
var zoneinfo []byte

var archive = sync.OnceValues(func() (*zip.Reader, error) { return zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo))) })

// zones holds what Zone has read: at most as many as the archive has.
var zones sync.Map

// Zone returns the rules of an IANA zone, such as Europe/Berlin, from the embedded database; empty
// means UTC. The zone files of the machine are not looked at, so that all processes agree. Safe for
// concurrent use.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	unknown := fmt.Errorf("%.64q is no zone of the time zone database %s; use a name such as Europe/Berlin, or UTC", name, TZVersion)
	a, err := archive()
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, "/") {
		return nil, unknown
	}
	f, err := a.Open(name)
	if err != nil {
		return nil, unknown
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, unknown // a directory
	}
	z, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, err
	}
	zones.Store(name, z)
	return z, nil
}

// Zones lists the names of all zones of the database, with their older names, in no order.
func Zones() ([]string, error) {
	a, err := archive()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range a.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names, nil
}
