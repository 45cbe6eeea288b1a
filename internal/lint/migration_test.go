package lint

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheMigrationPageNamesWhatIsExported checks docs/MIGRATION.md: the column "here" of each
// table names only what the library exports.
func TestTheMigrationPageNamesWhatIsExported(t *testing.T) {
	var exported []string
	for name := range exportedNames(t) { // order-free: is searched as a whole
		exported = append(exported, name)
	}
	checked, missing := namesHere(pages(t)["docs/MIGRATION.md"], func(symbol string) bool {
		return slices.ContainsFunc(exported, func(name string) bool { return name == symbol || strings.HasSuffix(name, "."+symbol) })
	})
	for _, m := range missing {
		t.Errorf("docs/MIGRATION.md: there is no %s", m)
	}
	if checked < 100 {
		t.Errorf("only %d names were found", checked)
	}
}

// namesHere returns how many exported names of Go the columns "here" of a page's tables have,
// and those that do not exist.
func namesHere(text string, exists func(symbol string) bool) (checked int, missing []string) {
	symbol := regexp.MustCompile("`((?:[a-z]+\\.)?[A-Z][A-Za-z]+(?:\\.[A-Z][A-Za-z]+)*)`")
	column := -1
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") {
			if !strings.HasPrefix(line, "|-") {
				column = -1
			}
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if column < 0 {
			column = slices.IndexFunc(cells, func(c string) bool { return strings.HasSuffix(" "+strings.TrimSpace(c), " here") })
			continue
		}
		if column >= len(cells) {
			missing = append(missing, "column in "+strings.TrimSpace(line))
			continue
		}
		for _, m := range symbol.FindAllStringSubmatch(cells[column], -1) {
			if strings.HasPrefix(m[1], "Test") {
				continue // TestGuaranteesNameRealTests checks tests
			}
			if checked++; !exists(m[1]) {
				missing = append(missing, m[1])
			}
		}
	}
	return checked, missing
}

// TestNamesThatDoNotExistAreFound shows that the check finds them, in the right column alone.
func TestNamesThatDoNotExistAreFound(t *testing.T) {
	const page = "| there | default there | here |\n|---|---|---|\n| `Old` | `Older` | `Config.Join`, `Config.Gone`, `lower` |\n\n| strategy there | policy here | differs |\n|---|---|---|\n| a | `gossip.Gone` | `Other` |\n"
	checked, missing := namesHere(page, func(s string) bool { return s == "Config.Join" })
	if want := []string{"Config.Gone", "gossip.Gone"}; checked != 3 || !slices.Equal(missing, want) {
		t.Errorf("%d names, missing %q, want %q", checked, missing, want)
	}
}
