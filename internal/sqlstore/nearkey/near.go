// Package nearkey lists keys that are easily mistaken for each other, such as "Order-7 " for
// "order-7". A response under such a key may have been meant for the other one, so
// Store.NearMisses looks all of them up for a person who asks why nothing matches. No write needs
// the package. Its one function is pure, and so safe for concurrent use.
package nearkey

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxNear bounds the keys that are looked up for one: each costs a probe of an index, about 2 µs.
// Keys above some 60 characters reach it; then insertions and substitutions of the last characters
// are left out.
const maxNear = 8000

// separators are the characters between the parts of a key.
const separators = "-_ /.:#"

// Similar lists the keys that people and programs mistake for key: other case, other separators or
// none, more or fewer leading zeros, space around it, and one character more, less or other. The
// list has at most maxNear keys, none of them empty or key itself. To look all of them up takes a
// few milliseconds, which a person can wait; an index over folded keys would cost every enqueue.
func Similar(key string) []string {
	n := nearSet{not: key, seen: map[string]bool{}}
	for _, folded := range []string{key, strings.TrimSpace(key)} {
		for _, tokens := range [][]string{split(folded, false), split(folded, true)} {
			for _, numbered := range zeros(tokens) {
				for _, sep := range []string{"-", "", "_", " ", "/", ".", ":", "#"} {
					n.cases(strings.Join(numbered, sep))
				}
			}
		}
		n.cases(folded)
	}
	n.edits([]rune(key))
	return n.list
}

// nearSet collects keys without duplicates.
type nearSet struct {
	not  string
	seen map[string]bool
	list []string
}

func (n *nearSet) add(key string) {
	if key != "" && key != n.not && !n.seen[key] && len(n.list) < maxNear {
		n.seen[key] = true
		n.list = append(n.list, key)
	}
}

// cases adds a key as it is, in lower and upper case, and with a capital.
func (n *nearSet) cases(key string) {
	lower := []rune(strings.ToLower(key))
	n.add(key)
	n.add(string(lower))
	n.add(strings.ToUpper(key))
	if len(lower) > 0 {
		lower[0] = unicode.ToUpper(lower[0])
		n.add(string(lower))
	}
}

// split cuts a key at its separators, and with bounds also between letters and digits.
func split(key string, bounds bool) (tokens []string) {
	var token []rune
	end := func() {
		if len(token) > 0 {
			tokens, token = append(tokens, string(token)), nil
		}
	}
	for _, r := range key {
		if strings.ContainsRune(separators, r) {
			end()
			continue
		}
		if bounds && len(token) > 0 && unicode.IsDigit(r) != unicode.IsDigit(token[len(token)-1]) {
			end()
		}
		token = append(token, r)
	}
	end()
	return tokens
}

// zeros gives the tokens as they are, with all numbers without leading zeros, and with the last
// number filled up to 10 digits.
func zeros(tokens []string) [][]string {
	out := [][]string{tokens}
	bare, last := slices.Clone(tokens), -1
	for i, t := range tokens {
		if _, err := strconv.ParseUint(t, 10, 64); err == nil {
			last, bare[i] = i, strings.TrimLeft(t, "0")
			if bare[i] == "" {
				bare[i] = "0"
			}
		}
	}
	if last < 0 {
		return out
	}
	out = append(out, bare)
	for width := len(bare[last]) + 1; width <= 10; width++ {
		filled := slices.Clone(tokens)
		filled[last] = strings.Repeat("0", width-len(bare[last])) + bare[last]
		out = append(out, filled)
	}
	return out
}

// edits adds the keys at one edit: a character deleted, swapped, replaced, inserted.
func (n *nearSet) edits(key []rune) {
	for i := range key {
		n.add(string(slices.Delete(slices.Clone(key), i, i+1)))
		if i > 0 {
			swapped := slices.Clone(key)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			n.add(string(swapped))
		}
	}
	letters := alphabet(key)
	for i := range len(key) + 1 {
		for _, r := range letters {
			if i < len(key) {
				other := slices.Clone(key)
				other[i] = r
				n.add(string(other))
			}
			n.add(string(slices.Insert(slices.Clone(key), i, r)))
		}
	}
}

// alphabet returns the characters for edits of a key, as far as the key shows its alphabet.
func alphabet(key []rune) []rune {
	letters := "0123456789"
	if slices.ContainsFunc(key, unicode.IsLower) || !slices.ContainsFunc(key, unicode.IsUpper) {
		letters += "abcdefghijklmnopqrstuvwxyz"
	}
	if slices.ContainsFunc(key, unicode.IsUpper) {
		letters += "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	}
	letters += separators
	for _, r := range key {
		if !strings.ContainsRune(letters, r) {
			letters += string(r)
		}
	}
	return []rune(letters)
}
