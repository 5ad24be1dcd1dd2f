package driver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/internal/glob"
)

// MaxClaimQueues bounds the queues that a claim looks into for the patterns that it names. If more
// queues match, the claim takes those with ready jobs, and each claim begins with other ones.
const MaxClaimQueues = 256

// IsPattern reports whether an entry of ClaimRequest.Queues is a pattern, in which * stands for any
// text, or an exclusion, which begins with "!". Names have neither character.
func IsPattern(entry string) bool { return strings.ContainsAny(entry, "!*") }

// SelectsQueue returns the index of the entry that selects a queue: its name, else the matching
// pattern with the most bytes besides *, whatever the order of the entries. It is -1 if there is
// none, or an exclusion matches the queue.
func SelectsQueue(entries []string, queue string) int {
	at := -1
	for i, e := range entries {
		pattern, excludes := strings.CutPrefix(e, "!")
		switch {
		case !glob.Match(pattern, queue):
		case excludes:
			return -1
		case at < 0 || closer(e, entries[at]) < 0:
			at = i
		}
	}
	return at
}

// closer orders entries that match the same queue by how closely they describe it.
func closer(a, b string) int {
	literal := func(e string) int {
		if !IsPattern(e) {
			return sojourn.MaxName + 1 // a name is closer than every pattern
		}
		return len(e) - strings.Count(e, "*")
	}
	return cmp.Or(literal(b)-literal(a), strings.Compare(a, b))
}

// ValidQueues checks names, patterns and exclusions of queues, as in ClaimRequest.Queues: each is
// listed once, and at least one is not an exclusion. A pattern may match no queue yet. The error
// has CodeInvalid.
func ValidQueues(field string, entries []string) error {
	selects := false
	for i, e := range entries {
		pattern, excludes := strings.CutPrefix(e, "!")
		name := strings.ReplaceAll(pattern, "*", "")
		if len(pattern) > sojourn.MaxName {
			return sojourn.Invalid(field, "a pattern has at most %d bytes, this one has %d", sojourn.MaxName, len(pattern))
		}
		if name != "" || pattern == "" {
			if err := sojourn.ValidName(field, name); err != nil {
				return err
			}
		}
		if slices.Contains(entries[:i], e) {
			return sojourn.Invalid(field, "%q is listed twice; remove one", e)
		}
		selects = selects || !excludes
	}
	if len(entries) > 0 && !selects {
		return sojourn.Invalid(field, "only exclusions are listed, which select no queue; add a name or a pattern, such as *")
	}
	return nil
}
