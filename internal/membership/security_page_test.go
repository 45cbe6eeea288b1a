package membership

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSecurityPageOfHints holds the limits of hints in SECURITY.md to the code.
func TestSecurityPageOfHints(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("a second, at a time | %d, %d |", int(time.Second/hintEvery), hintsAtOnce),
		fmt.Sprintf("and behind it (fixed) | %d |", hintsMax),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row with %q", row)
		}
	}
}
