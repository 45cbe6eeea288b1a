package discovery

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSecurityPageOfDiscovery holds the limits of discovery in SECURITY.md to the code.
func TestSecurityPageOfDiscovery(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| bytes of a datagram (fixed) | %d |", packetBytesMost),
		fmt.Sprintf("all strangers, all | %d, %d, %d, %d |", packetsOfSource, packetsOfHost, packetsOfStrangers, packetsOfAll),
		fmt.Sprintf("and at a time | %d; %d, %d |", namesMax, newNamesRate, newNamesBurst),
		fmt.Sprintf("accepted streams at a time (fixed) | %d; %d |", streamBytesMost, streamsOpenMost),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row with %q", row)
		}
	}
}
