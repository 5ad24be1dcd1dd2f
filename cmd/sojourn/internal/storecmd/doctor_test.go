package storecmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn/driver"
)

func TestDiagnose(t *testing.T) {
	d := diagnose([]string{"a", "b"}, []driver.Violation{{Check: "b", Detail: "1"}, {Check: "new", Detail: "2"}, {Check: "b", Detail: "3"}})
	if got, want := fmt.Sprint(d), "{false [] [{a []} {b [1 3]} {new [2]}]   []}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if d := diagnose([]string{"a"}, nil); !d.Healthy {
		t.Error("nothing found, and not healthy")
	}
}

// TestDoctorProgress: how far the checks have come goes to stderr, line by line.
func TestDoctorProgress(t *testing.T) {
	var out strings.Builder
	report := progress(&out, 0)
	report(driver.CheckProgress{Check: "live-state", Number: 4, Of: 41, Rows: 12000})
	progress(&out, time.Hour)(driver.CheckProgress{Check: "too soon"})
	if out.String() != "check 4 of 41, live-state: 12000 rows read so far\n" {
		t.Errorf("%q", out.String())
	}
}
