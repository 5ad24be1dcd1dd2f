package storetest

import (
	"slices"
	"strings"
	"testing"
)

// The entries that the suite has to cover: the rows and rules that concern a store, as far as the
// rows are built.
const (
	wantRows = `N2 N3 N4 N5 N6 S1 C1 C2 C3 C4 C6 L1 L2 L3 L4 L5 F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13 F14 D1 D2 D3
		R1 R2 R3 R4 R5 M1 M2 M3 M4 W1 W2 W4 W5 W6 W7 W8 W9 W10 O1 O3 O4 O5 O7 O8`
	wantRules = `A1 A2 A3 A4 A5 A6 A7 A8 B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B12 C1 C2 C3 C4 C5 C7 C8 D1 D2 E1 E2 E3 E4 F1 F2 F6 G1 G2 G6 H1 H2 H3 H4 H5`
	wantSpec  = `A1 A2 A3 A5 A9 A10 A11 A12 A16 A17 J1 J2 J3 J4 J5 J7 J8 J9 J10 J11 J12 J14 J15 J16 J17 J18 J19 J22 J23 J24 J27
		S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 P1 P2 P3 P4 P7 P8 P9 P10 P12 P13 P14 O1 O2 O3 O4 O5 O6 O7 O8 O9 O10 O11 O12 O13 O14 O15 O16
		L1 L2 L3 L4 L7 L10 R1 R2 R3 R5 R7 R8 R9 R11 R13 D1 W8 W9 W10 W11 K1 K2 K3 K4 K8 K9 X8 X9 X14 X15 B4 B5 B6 H1 H2 H3 H4 H5 H6`
	wantLaws = `A1 A3 A4 A7 F1 F2 F4 F6 F8 S1 S2 S3 S4 S5 U1 U2 U3 U4 L1 L2 L3 L4 L5 L7 C2 C3 C4 C5 C6 P1 P2 P3 P4 K1 K2 N1 N2 N3 R1 R3 T1 T2 T4 W1 W3 W4 W5 J2`
)

func covered(t *testing.T) map[string][]string {
	t.Helper()
	by := map[string][]string{}
	for _, c := range slices.Concat(allTrials(), instanceTrials) {
		for _, id := range strings.Fields(c.Covers) {
			by[id] = append(by[id], c.Name)
		}
	}
	return by
}

// TestCoverage checks that every row in scope is walked by a case; with -v it lists them.
func TestCoverage(t *testing.T) {
	by := covered(t)
	for sort, want := range map[string]string{"tr:": wantRows, "rules:": wantRules, "spec:": wantSpec, "inv:": wantLaws} {
		for _, row := range strings.Fields(want) {
			if len(by[sort+row]) == 0 {
				t.Errorf("no case covers %s%s", sort, row)
			}
			t.Logf("%s%s: %s", sort, row, strings.Join(by[sort+row], " · "))
		}
	}
}

// TestTrials checks the table itself: names are unique and usable, laws are sentences, and ids are
// well formed.
func TestTrials(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range slices.Concat(allTrials(), instanceTrials) {
		if seen[c.Name] || c.Name == "" || strings.Contains(c.Name, "/") {
			t.Errorf("the name %q is empty, double or has a slash", c.Name)
		}
		seen[c.Name] = true
		if !strings.HasSuffix(c.Law, ".") || len(c.Law) < 20 || c.Run == nil {
			t.Errorf("%s: the law %q is not a sentence, or there is nothing to run", c.Name, c.Law)
		}
		ids := strings.Fields(c.Covers)
		for i, id := range ids {
			sort, row, ok := strings.Cut(id, ":")
			if !ok || row == "" || !slices.Contains([]string{"tr", "rules", "spec", "inv", "field"}, sort) || slices.Contains(ids[:i], id) {
				t.Errorf("%s covers %q, which is malformed or named twice", c.Name, id)
			}
		}
		if rule, _, ok := strings.Cut(c.Name, " "); ok && strings.HasPrefix(rule, "rules:") && !slices.Contains(ids, rule) {
			t.Errorf("%s is named after a rule that it does not cover", c.Name)
		}
		if len(ids) == 0 {
			t.Errorf("%s covers nothing", c.Name)
		}
	}
	t.Logf("%d cases", len(seen))
}
