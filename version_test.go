package peerage_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/peerage-go/peerage"
)

// TestVersionIsThatOfTheChangelog checks that Version has the form of the go command's
// versions, and that CHANGELOG.md begins with it: as unreleased while Version ends in -dev.
func TestVersionIsThatOfTheChangelog(t *testing.T) {
	if !regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`).MatchString(peerage.Version) {
		t.Errorf("%q is no semantic version with a leading v", peerage.Version)
	}
	page, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest := regexp.MustCompile(`(?m)^## (\S+)(.*)$`).FindSubmatch(page)
	if newest == nil {
		t.Fatal("CHANGELOG.md has no section")
	}
	release, dev := strings.CutSuffix(peerage.Version, "-dev")
	if string(newest[1]) != release {
		t.Errorf("CHANGELOG.md begins with %s, Version is %s", newest[1], peerage.Version)
	}
	if unreleased := strings.Contains(string(newest[2]), "unreleased"); unreleased != dev {
		t.Errorf("CHANGELOG.md's section %s is marked unreleased: %v; Version is %s", newest[1], unreleased, peerage.Version)
	}
}
