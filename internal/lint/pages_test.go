package lint

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// pages returns the Markdown pages of the module by path relative to its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir("../..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "../.." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".md" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("../..", p)
		out[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil || len(out) < 20 {
		t.Fatalf("%d pages, error %v", len(out), err)
	}
	return out
}

var (
	coded     = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	fenced    = regexp.MustCompile("(?s)```.*?```")
	linkTo    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *$`)
	anchor    = regexp.MustCompile(`<a id="([^"]+)">`)
	elsewhere = regexp.MustCompile(`^(?:https?|mailto):`)
	notSlug   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestPagesLinkToWhatExists checks each link of a page to a file of the repository, and to a
// heading of a page.
func TestPagesLinkToWhatExists(t *testing.T) {
	all := pages(t)
	exists := func(p string) bool {
		_, err := os.Stat("../../" + p)
		return !errors.Is(err, fs.ErrNotExist)
	}
	for name, text := range all { // order-free: reports errors
		for _, m := range linksThatFail(name, text, all, exists) {
			t.Errorf("%s: there is no %s", name, m)
		}
	}
}

// linksThatFail returns the links of a page that lead to no file and no heading.
func linksThatFail(name, text string, all map[string]string, exists func(string) bool) []string {
	var out []string
	for _, m := range linkTo.FindAllStringSubmatch(coded.ReplaceAllString(text, ""), -1) {
		if elsewhere.MatchString(m[1]) {
			continue
		}
		file, fragment, _ := strings.Cut(m[1], "#")
		target := name
		if file != "" {
			target = path.Join(path.Dir(name), file)
		}
		page, known := all[target]
		if !known && !exists(target) || fragment != "" && known && !anchors(page)[fragment] {
			out = append(out, m[1])
		}
	}
	return out
}

// anchors returns the fragments that lead to headings and named places of a page.
func anchors(text string) map[string]bool {
	text = fenced.ReplaceAllString(text, "")
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		unique := slug
		for n := 1; out[unique]; n++ {
			unique = slug + "-" + strconv.Itoa(n)
		}
		out[unique] = true
	}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	return out
}

// TestBrokenLinksAreFound shows that the check of the links finds those that lead nowhere.
func TestBrokenLinksAreFound(t *testing.T) {
	all := map[string]string{"a.md": "# One `two`: G1\n```\n# code\n```\n<a id=\"here\"></a>\n## Again\n## Again\n", "docs/b.md": "# B\n"}
	exists := func(p string) bool { return p == "go.mod" }
	for link, broken := range map[string]bool{
		"a.md": false, "a.md#one-two-g1": false, "a.md#here": false, "docs/b.md#b": false, "go.mod": false, "#again-1": false,
		"https://example.org/x": false, "`Key[int](`": false, "a.md#code": true, "c.md": true, "docs/a.md": true, "#again-2": true, "docs/b.md#c": true,
	} {
		if got := linksThatFail("a.md", all["a.md"]+strings.Replace("[x]("+link+")", "[x](`Key[int](`)", "`Key[int](\"a\")`", 1), all, exists); (len(got) > 0) != broken {
			t.Errorf("%s: %q", link, got)
		}
	}
	if got := linksThatFail("docs/b.md", "[x](../a.md) [y](b.md) [z](a.md)", all, exists); len(got) != 1 || got[0] != "a.md" {
		t.Errorf("relative links: %q", got)
	}
}
