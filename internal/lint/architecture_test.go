package lint

import (
	"encoding/xml"
	"errors"
	"go/ast"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// architecture is the directory of the pages on how the code works.
const architecture = "../../docs/architecture/"

// TestArchitecturePagesNameWhatExists checks docs/architecture: each path, symbol and test
// in code marks exists, and a symbol that stands in a table row behind a Go file is declared
// in that file.
func TestArchitecturePagesNameWhatExists(t *testing.T) {
	d := declaredIn(tree(t))
	pages, err := filepath.Glob(architecture + "*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, error %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		names := 0
		for i, line := range strings.Split(string(text), "\n") {
			n, missing := d.check(line)
			names += n
			for _, m := range missing {
				t.Errorf("%s:%d: %s", page, i+1, m)
			}
		}
		if names < 20 {
			t.Errorf("%s names only %d files, symbols and tests", page, names)
		}
	}
}

// TestArchitectureNamesAreCompared shows that the check of the pages finds names that do
// not exist.
func TestArchitectureNamesAreCompared(t *testing.T) {
	d := declaredIn(tree(t))
	for line, want := range map[string]int{
		"| 1 | `internal/core/view/core.go` | `Core.Step`, `New` | step |":    0,
		"`TestArchitectureNamesAreCompared`, `view.Core`, `go vet ./...`":     0,
		"| 1 | `internal/core/view/core.go` | `Core.sendRound` | elsewhere |": 1,
		"`internal/core/view/gone.go`, `TestGone`, `Core.gone2`, `goneAway`":  4,
	} {
		if _, missing := d.check(line); len(missing) != want {
			t.Errorf("%s: found %q, want %d", line, missing, want)
		}
	}
}

// declarations holds the names that the module declares, "Type.Member" for members: by
// file, of all files but tests together, and the names of tests.
type declarations struct {
	files map[string]map[string]bool
	all   map[string]bool
	tests map[string]bool
}

func declaredIn(files []*file) declarations {
	d := declarations{files: map[string]map[string]bool{}, all: map[string]bool{}, tests: testNames(files)}
	for _, f := range files {
		names := namesOf(f)
		d.files[f.path] = names
		if f.test {
			continue
		}
		for name := range names { // order-free: fills sets
			d.all[name], d.all[f.ast.Name.Name+"."+name] = true, true
		}
	}
	return d
}

// namesOf returns what a file declares at its top, with the members of its types.
func namesOf(f *file) map[string]bool {
	names := map[string]bool{}
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				names[decl.Name.Name] = true
			} else {
				names[typeName(decl.Recv.List[0].Type)+"."+decl.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				case *ast.TypeSpec:
					names[s.Name.Name] = true
					for _, m := range membersOf(s.Type) {
						names[s.Name.Name+"."+m] = true
					}
				}
			}
		}
	}
	return names
}

var (
	codeMark = regexp.MustCompile("`([^`]+)`")
	filePath = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)+/?$|^[\w-]+\.(?:go|md|svg)$`)
	symbol   = regexp.MustCompile(`^[A-Za-z_]\w*(?:\.\w+)?$`)
	testName = regexp.MustCompile(`^(?:Test|Example|Fuzz|Benchmark)[A-Z]`)
)

// check returns how many names stand in a line, and what is wrong with them. Marks that
// are neither path nor symbol are left out.
func (d declarations) check(line string) (names int, missing []string) {
	var within map[string]bool
	row := strings.HasPrefix(line, "|")
	for _, m := range codeMark.FindAllStringSubmatch(line, -1) {
		name := m[1]
		switch {
		case filePath.MatchString(name):
			if _, err := os.Stat("../../" + name); err != nil {
				missing = append(missing, "there is no "+name)
			}
			if row && strings.HasSuffix(name, ".go") {
				within = d.files[name]
			}
		case testName.MatchString(name):
			if !d.tests[name] {
				missing = append(missing, "there is no test "+name)
			}
		case !symbol.MatchString(name):
			continue
		case within != nil && !within[name]:
			missing = append(missing, name+" is not declared in the file of its row")
		case within == nil && !d.all[name]:
			missing = append(missing, "nothing declares "+name)
		}
		names++
	}
	return names, missing
}

// TestArchitecturePicturesAreSound checks that each page shows its picture, and that the
// pictures are well-formed, at most 900 wide, have a title, and carry text as text.
func TestArchitecturePicturesAreSound(t *testing.T) {
	pages, err := filepath.Glob(architecture + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		picture := strings.TrimSuffix(page, ".md") + ".svg"
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "]("+filepath.Base(picture)+")") {
			t.Errorf("%s does not show %s", page, filepath.Base(picture))
		}
		checkPicture(t, picture)
	}
}

// TestPicturesOfPagesAreSound checks the drawn pictures of all further pages in the same way,
// and that a page shows each.
func TestPicturesOfPagesAreSound(t *testing.T) {
	pictures, err := filepath.Glob("../../docs/images/*.svg")
	if err != nil || len(pictures) < 6 {
		t.Fatalf("%d pictures, error %v", len(pictures), err)
	}
	var text strings.Builder
	for _, page := range pages(t) { // order-free: joins all pages
		text.WriteString(page)
	}
	for _, picture := range pictures {
		if !strings.Contains(text.String(), "/"+filepath.Base(picture)+")") {
			t.Errorf("no page shows %s", picture)
		}
		checkPicture(t, picture)
	}
}

func checkPicture(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	elements := map[string]int{}
	for in := xml.NewDecoder(f); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if elements[start.Name.Local]++; start.Name.Local == "svg" {
			for _, a := range start.Attr {
				if w, err := strconv.Atoi(a.Value); a.Name.Local == "width" && (err != nil || w > 900) {
					t.Errorf("%s: width %s, at most 900", path, a.Value)
				}
			}
		}
	}
	if elements["svg"] != 1 || elements["title"] != 1 || elements["text"] < 10 {
		t.Errorf("%s: %d svg, %d title, %d text elements", path, elements["svg"], elements["title"], elements["text"])
	}
}
