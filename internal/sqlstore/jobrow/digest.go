package jobrow

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/driver"
)

// Digest identifies the content of a job or a response: it is the first half of a SHA-256, stored
// with the job as it was first enqueued. It distinguishes a repeated call (duplicate) from another
// job under the same id (conflict), even if the job has changed since (docs/decisions/047). For a
// response it does the same for the message id, see ResponseDigest.
type Digest [sha256.Size / 2]byte

// inlineArgs is the size up to which args are hashed together with the rest. Stored digests depend
// on it.
const inlineArgs = 256

// Digests computes the digest of each job of a caller (nil without access control), before the
// defaults of its queue are filled in.
func Digests(jobs []sojourn.Job, c *access.Caller) []Digest {
	out := make([]Digest, len(jobs))
	var b [512]byte
	var policies policyDigest
	for i := range jobs {
		out[i] = jobDigest(b[:0], &jobs[i], c, &policies)
	}
	return out
}

// jobDigest hashes the owner of the id and all fields that the caller set. The id is left out,
// because digests are compared under one id. So is OnConflict, which concerns only this call's key.
// Each field begins with its length, or has a fixed form, so that no two jobs have the same bytes.
func jobDigest(b []byte, j *sojourn.Job, c *access.Caller, policies *policyDigest) (d Digest) {
	for _, s := range [...]string{driver.IDOwner(j, c.Owner()), j.Kind, j.Queue, j.Key, j.Group, j.ContentType} {
		b = appendText(b, s)
	}
	b = binary.AppendUvarint(b, uint64(len(j.Args)))
	if len(j.Args) <= inlineArgs {
		b = append(b, j.Args...)
	} else { // hashed on their own, so that large ones are not copied
		args := sha256.Sum256(j.Args)
		b = append(b, args[:]...)
	}
	priority, weight := j.Given()
	b = append(b, byte(Bit(priority)), byte(Bit(weight)))
	for _, n := range [...]int64{int64(j.Priority), int64(j.Weight), Micros(j.RunAt), int64(j.Delay), int64(len(j.Tags))} {
		b = binary.AppendVarint(b, n)
	}
	for _, t := range j.Tags {
		b = appendText(b, t)
	}
	b = appendMeta(b, j.Meta)
	b = appendText(b, policies.of(&j.Policy))
	if len(j.Depends) > 0 {
		text, _ := JSONText(j.Depends) // numbers and names: it cannot fail
		b = appendText(b, text)
	}
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}

// appendMeta leaves out the trace context, which is another one for each repeat of a request.
func appendMeta(b []byte, meta map[string]string) []byte {
	if len(meta) == 0 {
		return binary.AppendUvarint(b, 0)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(meta)), func(name string) bool {
		return name == sojourn.MetaTraceparent || name == sojourn.MetaTracestate
	})
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendText(appendText(b, name), meta[name])
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// policyDigest computes the part of a digest that stands for the policy: its JSON, or "" if it sets
// nothing. It remembers the last one, because jobs that are stored together mostly share it.
type policyDigest struct {
	last *sojourn.Policy
	text string
}

func (t *policyDigest) of(p *sojourn.Policy) string {
	if sameFields(p, &noPolicy) {
		return ""
	}
	if t.last == nil || !sameFields(t.last, p) {
		// A policy that has no JSON, such as one with a factor that is not a number, is refused
		// later.
		t.text, _ = JSONText(p)
		if p.Windows != nil && len(p.Windows) == 0 {
			t.text += " no windows" // which JSON omits
		}
		t.last = p
	}
	return t.text
}

// noPolicy is a policy that sets nothing.
var noPolicy sojourn.Policy

// sameFields compares policies as their caller gave them, where false is not the same as unset.
func sameFields(a, b *sojourn.Policy) bool {
	return samePolicy(a, b) && sameBool(a.NoExtend, b.NoExtend) && sameBool(a.LateToInbox, b.LateToInbox) &&
		sameBool(a.StopAtWindowEnd, b.StopAtWindowEnd)
}

func sameBool(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
