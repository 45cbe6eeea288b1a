package lint

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPicturesNameWhatExists checks the text in the pictures of docs/architecture: a text of
// class package names a package, and a word with a capital within it is declared.
func TestPicturesNameWhatExists(t *testing.T) {
	files := tree(t)
	pictures, err := filepath.Glob(architecture + "*.svg")
	if err != nil || len(pictures) < 6 {
		t.Fatalf("%d pictures, error %v", len(pictures), err)
	}
	for _, picture := range pictures {
		names, missing := namedIn(files, textsOf(t, picture))
		for _, m := range missing {
			t.Errorf("%s: there is no %s", picture, m)
		}
		if names == 0 && filepath.Base(picture) == "house.svg" {
			t.Errorf("%s names no package", picture)
		}
	}
}

// TestPictureNamesAreCompared shows that the check of the pictures finds names that do not
// exist.
func TestPictureNamesAreCompared(t *testing.T) {
	files := tree(t)
	for s, want := range map[pictureText]int{
		{class: "name package", text: "membership"}:   0,
		{class: "name package", text: "shell"}:        1,
		{class: "small", text: "HostShards: a token"}: 0,
		{class: "small", text: "HostsShard: a token"}: 1,
	} {
		if _, missing := namedIn(files, []pictureText{s}); len(missing) != want {
			t.Errorf("%v: found %q, want %d", s, missing, want)
		}
	}
}

// pictureText is a text element of a picture.
type pictureText struct{ class, text string }

func textsOf(t *testing.T, picture string) (texts []pictureText) {
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := xml.NewDecoder(f); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("%s: %v", picture, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" {
			continue
		}
		var e struct {
			Class string `xml:"class,attr"`
			Text  string `xml:",chardata"`
		}
		if err := in.DecodeElement(&e, &start); err != nil {
			t.Fatalf("%s: %v", picture, err)
		}
		texts = append(texts, pictureText{e.Class, e.Text})
	}
}

var mixedCase = regexp.MustCompile(`\b[A-Z][a-z]+[A-Z]\w*\b`)

// namedIn returns how many names stand in the texts, and those that do not exist.
func namedIn(files []*file, texts []pictureText) (names int, missing []string) {
	exists := map[string]bool{"peerage": true}
	for _, f := range files {
		exists[path.Base(f.pkg)] = true
	}
	declared := map[string]bool{}
	for name := range declaredIn(files).all { // order-free: fills a set
		declared[name[strings.LastIndex(name, ".")+1:]] = true
	}
	for _, s := range texts {
		if strings.Contains(s.class, "package") {
			if names++; !exists[s.text] {
				missing = append(missing, "package "+s.text)
			}
			continue
		}
		for _, word := range mixedCase.FindAllString(s.text, -1) {
			if names++; !declared[word] {
				missing = append(missing, word)
			}
		}
	}
	return names, missing
}

// outside are the directories whose packages stand on no floor: programs, examples, and
// modules or measurements beside the library.
var outside = []string{"cmd", "examples", "bench", "deploy", "otelpeerage"}

// TestEveryPackageStandsOnAFloor compares the table of floors of docs/architecture/house.md
// with the tree: each package stands on a floor, and the picture shows all shells and cores.
func TestEveryPackageStandsOnAFloor(t *testing.T) {
	text, err := os.ReadFile(architecture + "house.md")
	if err != nil {
		t.Fatal(err)
	}
	var drawn []string
	for _, s := range textsOf(t, architecture+"house.svg") {
		if strings.Contains(s.class, "package") {
			drawn = append(drawn, s.text)
		}
	}
	floors := floorsOf(string(text))
	for _, floor := range []string{"shells", "cores"} {
		for _, dir := range floors[floor] {
			if !slices.Contains(drawn, path.Base(dir)) {
				t.Errorf("house.svg does not show %s, one of the %s", dir, floor)
			}
		}
	}
	var all []string
	for _, dirs := range floors { // order-free: joins all rows
		all = append(all, dirs...)
	}
	for _, f := range tree(t) {
		beside := func(dir string) bool { return in(f.pkg, dir) }
		if f.pkg != "." && !slices.ContainsFunc(outside, beside) && !slices.ContainsFunc(all, beside) {
			t.Errorf("%s: package %s stands on no floor of docs/architecture/house.md", f.path, f.pkg)
		}
	}
}

// floorsOf returns the directories in the rows of the table of floors, by the floor's name.
func floorsOf(page string) map[string][]string {
	_, table, _ := strings.Cut(page, "| floor | where | what it holds |\n|---|---|---|\n")
	floors := map[string][]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			break
		}
		for _, m := range codeMark.FindAllStringSubmatch(cells[2], -1) {
			if dir, is := strings.CutSuffix(m[1], "/"); is {
				floors[strings.TrimSpace(cells[1])] = append(floors[strings.TrimSpace(cells[1])], dir)
			}
		}
	}
	return floors
}
