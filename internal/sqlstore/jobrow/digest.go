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

// Digest is the first half of a SHA-256. The digest of a job as it was first enqueued is stored
// with it. It distinguishes a repeated call (duplicate) from another job under the same id
// (conflict), even if the job has changed since: see docs/decisions/047. The digest of a response
// does the same for its message id, see ResponseDigest.
type Digest [sha256.Size / 2]byte

// inlineArgs is the size up to which args are hashed together with the rest. Stored digests depend
// on it.
const inlineArgs = 256

// Digests computes the digest of each job, before the defaults of its queue are filled in.
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
	b = binary.AppendUvarint(b, uint64(len(j.Meta)))
	if len(j.Meta) > 0 {
		for _, name := range slices.Sorted(maps.Keys(j.Meta)) {
			b = appendText(appendText(b, name), j.Meta[name])
		}
	}
	b = appendText(b, policies.of(&j.Policy))
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// policyDigest is the JSON of the last policy, "" for one that sets nothing. Jobs that are stored
// together mostly have the same.
type policyDigest struct {
	last *sojourn.Policy
	text string
}

func (t *policyDigest) of(p *sojourn.Policy) string {
	if saysTheSame(p, &noPolicy) {
		return ""
	}
	if t.last == nil || !saysTheSame(t.last, p) {
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

var noPolicy sojourn.Policy

// saysTheSame compares policies as their caller gave them, where false is not the same as unset.
func saysTheSame(a, b *sojourn.Policy) bool {
	return samePolicy(a, b) && sameBool(a.NoExtend, b.NoExtend) && sameBool(a.StopAtWindowEnd, b.StopAtWindowEnd)
}

func sameBool(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
