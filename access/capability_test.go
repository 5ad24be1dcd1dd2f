package access

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sojourn-queue/sojourn"
)

func TestTokenNamesOneWait(t *testing.T) {
	secret := []byte("a secret of this store")
	seen := map[string]bool{}
	for _, id := range []sojourn.ID{1, 42, 1<<53 - 1} {
		for _, generation := range []int32{1, 2, math.MaxInt32} {
			for _, attempt := range []int32{1, 12, math.MaxInt32} {
				for _, wait := range []int32{0, 1, math.MaxInt32} {
					token := NewCapability(secret, id, generation, attempt, wait)
					c, err := ParseCapability(secret, token)
					if want := (Capability{Job: id, Generation: generation, Attempt: attempt, Wait: wait}); err != nil || c != want {
						t.Errorf("%s: %v, %v", token, c, err)
					}
					if seen[token] {
						t.Errorf("%s names two waits", token)
					}
					if seen[token] = true; len(token) > sojourn.MaxKey || strings.Trim(token, "0123456789.ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_") != "" {
						t.Errorf("%q does not fit into a URL", token)
					}
				}
			}
		}
	}
}

func TestTokenCannotBeForged(t *testing.T) {
	secret := []byte("a secret of this store")
	token := NewCapability(secret, 42, 1, 2, 3)
	parts := strings.Split(token, ".")
	forged := map[string]string{
		"empty":               "",
		"no parts":            "42",
		"no signature":        "42.1.2.3.",
		"another id":          "43.1.2.3." + parts[4],
		"another generation":  "42.2.2.3." + parts[4],
		"another attempt":     "42.1.3.3." + parts[4],
		"another wait":        "42.1.2.4." + parts[4],
		"of a whole attempt":  "42.1.2." + parts[4],
		"a wait below 0":      "42.1.2.-3." + parts[4],
		"a plus sign":         "+42.1.2.3." + parts[4],
		"a leading zero":      "042.1.2.3." + parts[4],
		"a space":             " " + token,
		"more":                token + "A",
		"padded":              token + "==",
		"another part":        token + ".x",
		"cut":                 token[:len(token)-1],
		"in lower case":       "42.1.2.3." + strings.ToLower(parts[4]) + "x",
		"an id above int64":   "92233720368547758080.1.2.3." + parts[4],
		"an attempt above 32": "42.1.4294967298.3." + parts[4],
		"very long":           token + strings.Repeat("A", 1<<20),
		"of another store":    NewCapability([]byte("another secret"), 42, 1, 2, 3),
		"of no secret":        NewCapability(nil, 42, 1, 2, 3),
		"given a time":        "42.1.2.3.1800000000." + parts[4],
		"another time":        strings.Replace(expiring(t, token, 1_800_000_000), ".18", ".19", 1),
		"time taken away":     "42.1.2.3." + lastPart(expiring(t, token, 1_800_000_000)),
		"two times":           expiring(t, token, 1_800_000_000) + ".1",
	}
	for name, f := range forged {
		if _, err := ParseCapability(secret, f); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, token := range []string{token, expiring(t, token, 1_800_000_000)} {
		for i := range token { // every single character counts, the last one of the signature too
			for _, c := range []byte("A0-_.z1") {
				if token[i] == c {
					continue
				}
				if got, err := ParseCapability(secret, token[:i]+string(c)+token[i+1:]); err == nil {
					t.Errorf("%q at %d instead of %q: accepted as %v", c, i, token[i], got)
				}
			}
		}
	}
	_, err := ParseCapability(secret, NewCapability([]byte("another secret"), 42, 1, 2, 3))
	if strings.Contains(err.Error(), parts[4]) || strings.Contains(err.Error(), "secret") {
		t.Errorf("the refusal says too much: %v", err)
	}
}

func lastPart(token string) string { return token[strings.LastIndexByte(token, '.')+1:] }

func expiring(t testing.TB, token string, until int64) string {
	t.Helper()
	narrow, err := Expiring(token, time.Unix(until, 0))
	if err != nil {
		t.Fatal(err)
	}
	return narrow
}

func TestExpiringToken(t *testing.T) {
	secret := []byte("a secret of this store")
	token := NewCapability(secret, 42, 1, 2, 3)
	narrow := expiring(t, token, 1_800_000_000)
	c, err := ParseCapability(secret, narrow)
	if want := (Capability{42, 1, 2, 3, time.Unix(1_800_000_000, 0)}); err != nil || c != want {
		t.Errorf("%v, %v, want %v", c, err, want)
	}
	if strings.Contains(narrow, lastPart(token)) {
		t.Errorf("%s carries the signature of %s, so its time could be taken away", narrow, token)
	}
	for _, bad := range []string{"", "42.1.2.3", "42.1.2.3.***", narrow, "." + lastPart(token)} {
		if _, err := Expiring(bad, time.Unix(1_900_000_000, 0)); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := Expiring(token, time.Time{}); sojourn.ErrorCode(err) != sojourn.CodeInvalid {
		t.Errorf("no time: %v", err)
	}
}

func FuzzParseCapability(f *testing.F) {
	secret := []byte("a secret of this store")
	good := NewCapability(secret, 42, 1, 2, 3)
	for _, s := range []string{"", good, good + "A", "42.1.2.3.", "....", "1.1.1.1.AAAAAAAAAAAAAAAAAAAAAA", "-1.-1.-1.-1.x", "+42" + good[2:], "\x00.1.1.1.1", NewCapability(nil, 1, 1, 1, 1),
		expiring(f, good, 1), expiring(f, good, 1<<62), "42.1.2.3.9223372036854775808." + lastPart(good)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		c, err := ParseCapability(secret, token)
		if err != nil {
			if sojourn.ErrorCode(err) != sojourn.CodeInvalid || c != (Capability{}) {
				t.Fatalf("%q: %v, %v", token, err, c)
			}
			return
		}
		want := NewCapability(secret, c.Job, c.Generation, c.Attempt, c.Wait)
		if !c.Until.IsZero() {
			want = expiring(t, want, c.Until.Unix())
		}
		if want != token {
			t.Fatalf("%q is accepted as %v, whose token is another", token, c)
		}
		if strings.Count(token, ".") == 3 && c.Job == 42 && c.Generation == 1 && c.Attempt == 2 && token != good {
			t.Fatalf("%q is a second token of one attempt", token)
		}
	})
}
