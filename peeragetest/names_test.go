package peeragetest

import "testing"

func TestNodesHaveDifferentNamesAndAddresses(t *testing.T) {
	seen := map[string]int{}
	for i := range 600 {
		for _, s := range []string{nameOf(i), addrOf(i)} {
			if before, taken := seen[s]; taken {
				t.Fatalf("nodes %d and %d have %s", before, i, s)
			}
			seen[s] = i
		}
	}
	if nameOf(0) != "a" || nameOf(25) != "z" || nameOf(26) != "a1" || addrOf(250) != "10.0.1.1:7101" {
		t.Errorf("%s, %s, %s, %s", nameOf(0), nameOf(25), nameOf(26), addrOf(250))
	}
}

func TestNamesResolveWithoutDNS(t *testing.T) {
	h := newHosts()
	h.addName("a", addrOf(0))
	if got, err := h.LookupNetIP(t.Context(), "ip", "a"); err != nil || len(got) != 1 || got[0].String() != "10.0.0.1" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := h.LookupNetIP(t.Context(), "ip", "b"); err == nil {
		t.Errorf("%v", got)
	}
	if _, got, err := h.LookupSRV(t.Context(), "", "", "a"); err == nil {
		t.Errorf("%v", got)
	}
}

func TestARingKeepsTheLastLines(t *testing.T) {
	r := newRing()
	if got := r.String(); got != "    (none)" {
		t.Errorf("an empty ring has %q", got)
	}
	for range ringLines + 3 {
		r.addLine("older")
	}
	r.addLine("newest")
	if len(r.lines) != ringLines || r.lines[ringLines-1] != "newest" {
		t.Errorf("%d lines: %q", len(r.lines), r.lines)
	}
}
