package migration

import (
	"regexp"
	"strings"

	"github.com/sojourn-queue/sojourn"
)

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// reservedPrefixes begin names that are not free for tables: those of indexes in the migrations,
// and those of the databases themselves.
var reservedPrefixes = []string{"ix_", "sqlite_", "pg_"}

// CheckPrefix checks the prefix of an instance's tables. The rule is the same on every database, so
// that an instance can be moved. The error has CodeInvalid.
func CheckPrefix(prefix string) error {
	if !plainName.MatchString(prefix) || len(prefix) > 32 {
		return sojourn.Invalid("Prefix", "%.64q is no plain name; allowed are up to 32 bytes of a-z, 0-9 and _, and the first is no digit; use a name such as \"mail_\"", prefix)
	}
	for _, reserved := range reservedPrefixes {
		if strings.HasPrefix(prefix, reserved) {
			return sojourn.Invalid("Prefix", "%q begins with %q, which is reserved; use a name such as \"mail_\"", prefix, reserved)
		}
	}
	return nil
}
