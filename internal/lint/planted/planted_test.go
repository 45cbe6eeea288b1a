package main

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func modulePatches(t *testing.T) (root string, patches []*patch) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if patches, err = readPatches(root); err != nil {
		t.Fatal(err)
	}
	if len(patches) < 30 {
		t.Fatalf("only %d patches were found", len(patches))
	}
	return root, patches
}

// TestEveryPatchStillFits applies all patches to the sources as they are, and compiles the
// result and the tests that plant. A rename that a patch does not follow breaks here.
func TestEveryPatchStillFits(t *testing.T) {
	root, patches := modulePatches(t)
	sources, err := applyAll(root, patches)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := writeOverlay(root, t.TempDir(), sources)
	if err != nil {
		t.Fatal(err)
	}
	packages, _ := catchers(patches)
	for _, p := range patches {
		packages = append(packages, "./"+p.dir())
	}
	slices.Sort(packages)
	vet := exec.Command("go", append([]string{"vet", "-tags", "planted", "-overlay", overlay}, slices.Compact(packages)...)...)
	vet.Dir = root
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("with all patches applied: %v\n%s", err, out)
	}
}

// TestEveryPatchNamesTests checks that the tests of the headers exist, and that they are
// built only with the tag: without patches they would fail.
func TestEveryPatchNamesTests(t *testing.T) {
	root, patches := modulePatches(t)
	for _, p := range patches {
		for _, c := range p.caughtBy {
			file := fileOfTest(t, filepath.Join(root, c.pkg), c.test)
			if file == "" {
				t.Errorf("%s: there is no test %s", p.path, c)
				continue
			}
			if src, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(src), "//go:build planted\n") {
				t.Errorf("%s: %s is not built by the tag planted alone (%v)", p.path, c, err)
			}
		}
	}
}

// fileOfTest returns the file of a package that has a test function.
func fileOfTest(t *testing.T, dir, test string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if f.Scope.Lookup(test) != nil {
			return file
		}
	}
	return ""
}

// TestThePageNamesEveryBug compares the patches with the table of docs/TESTING.md, and the
// statements that they break with those of GUARANTEES.md and that page.
func TestThePageNamesEveryBug(t *testing.T) {
	root, patches := modulePatches(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/TESTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	guarantees, err := os.ReadFile(filepath.Join(root, "GUARANTEES.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, p := range patches {
		if !strings.Contains(text, p.name) {
			t.Errorf("docs/TESTING.md does not name %q", p.name)
		}
		for _, id := range p.breaks {
			if !regexp.MustCompile(`\b` + id + `\b`).MatchString(text + string(guarantees)) {
				t.Errorf("%s breaks %s, which is not documented", p.path, id)
			}
		}
	}
}

const header = "planted: a bug\nbug: forgets\nbreaks: S1\ncaught by: internal/sim TestSeeds\n\n--- a.go\n"

const source = `package a

func (c *Core) one() bool {
	if c.full {
		return true
	}
	return false
}

func two() int { return 2 }

func three(c *Core) {
	c.n++
	c.n++
}
`

func TestPatchesApplyWithoutLineNumbers(t *testing.T) {
	for _, c := range []struct{ name, hunks, want string }{
		{"a changed line", "@@ func (c *Core) one(\n-\tif c.full {\n+\tif c.full || planted.On(\"a bug\") {\n", "if c.full || planted.On(\"a bug\") {\n\t\treturn true"},
		{"an insertion", "@@ func (c *Core) one(\n \t}\n+\tif planted.On(\"a bug\") {\n+\t\tc.n = 0\n+\t}\n \treturn false\n", "}\n\tif planted.On(\"a bug\") {\n\t\tc.n = 0\n\t}\n\treturn false\n}\n"},
		{"a function of one line", "@@ func two(\n-func two() int { return 2 }\n+func two() int { if planted.On(\"a bug\") { return 3 }; return 2 }\n", "return 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := patched(t, header+c.hunks)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, c.want) || !strings.HasPrefix(got, "package a; import \"github.com/peerage-go/peerage/internal/planted\"\n") {
				t.Errorf("patched:\n%s", got)
			}
		})
	}
}

func TestPatchesThatDoNotFitAreErrors(t *testing.T) {
	on := "+\tif planted.On(\"a bug\") {\n+\t}\n"
	for _, c := range []struct{ name, text, want string }{
		{"no header", "@@ func two(\n", "no empty line"},
		{"half a header", "planted: a bug\n\n--- a.go\n@@ func two(\n" + on, "the header needs"},
		{"no switch", header + "@@ func (c *Core) one(\n-\treturn false\n+\treturn true\n", "has no switch"},
		{"another switch", header + "@@ func (c *Core) one(\n+\tif planted.On(\"another\") {\n \treturn false\n", "is not the name"},
		{"no such function", header + "@@ func four(\n \treturn false\n" + on, "no function"},
		{"lines that are gone", header + "@@ func (c *Core) one(\n \treturn maybe\n" + on, "are not in func"},
		{"lines of another function", header + "@@ func (c *Core) one(\n \tc.n++\n" + on, "are not in func"},
		{"lines that stand twice", header + "@@ func three(\n \tc.n++\n" + on, "stand twice"},
		{"one line changed twice", header + strings.Repeat("@@ func (c *Core) one(\n-\treturn false\n+\treturn planted.On(\"a bug\")\n", 2), "change the same lines"},
		{"no context", header + "@@ func (c *Core) one(\n" + on, "has no context"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := patched(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q; patched:\n%s", err, c.want, got)
			}
		})
	}
}

func patched(t *testing.T, text string) (string, error) {
	t.Helper()
	p, err := parsePatch("a/testdata/planted/a.patch", text)
	if err != nil {
		return "", err
	}
	var all []planned
	for _, h := range p.hunks {
		all = append(all, planned{h, p})
	}
	return applyHunks("a.go", source, all)
}

// TestOnlyCaughtBugsCount reads what the tests of a run have printed.
func TestOnlyCaughtBugsCount(t *testing.T) {
	by := catcher{"internal/sim", "TestPlanted"}
	caught, missed, unlisted := &patch{name: "caught", caughtBy: []catcher{by}}, &patch{name: "missed", path: "missed.patch", caughtBy: []catcher{by}}, &patch{name: "unlisted"}
	var out strings.Builder
	got, err := readResults(&out, strings.NewReader(strings.Join([]string{
		`{"Action":"output","Package":"github.com/peerage-go/peerage/internal/sim","Test":"TestPlanted/caught","Output":"    a.go:1: planted: caught \"caught\": S1 is broken\n"}`,
		`{"Action":"pass","Package":"github.com/peerage-go/peerage/internal/sim","Test":"TestPlanted/caught"}`,
		`{"Action":"output","Package":"github.com/peerage-go/peerage/internal/sim","Test":"TestPlanted/missed","Output":"    a.go:1: planted: caught \"missed\": but the test failed\n"}`,
		`{"Action":"fail","Package":"github.com/peerage-go/peerage/internal/sim","Test":"TestPlanted/missed"}`,
		`{"Action":"output","Package":"github.com/peerage-go/peerage/internal/sim","Test":"TestPlanted/unlisted","Output":"    a.go:1: planted: caught \"unlisted\": S2 is broken\n"}`,
		`{"Action":"pass","Package":"github.com/peerage-go/peerage/internal/sim","Test":"TestPlanted/unlisted"}`,
	}, "\n")))
	if err != nil || !slices.Equal(got.failed, []string{"internal/sim TestPlanted/missed"}) || !slices.Equal(slices.Collect(maps.Keys(got.caught)), []catcher{by}) {
		t.Fatalf("%+v, %v", got, err)
	}
	all := []*patch{caught, missed, unlisted}
	want := []string{
		`internal/sim TestPlanted catches "unlisted", and the header of the patch does not name it`,
		"missed.patch: not caught by internal/sim TestPlanted",
	}
	if problems := compareCaught(all, all, got); !slices.Equal(problems, want) {
		t.Errorf("%q", problems)
	}
}
