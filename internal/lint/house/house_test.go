package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/lint/golist"
)

// TestTheHouse compares the module with its bounds, as the command does.
func TestTheHouse(t *testing.T) {
	var out bytes.Buffer
	ok, err := printFigures(&out, "../../..", options{})
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Errorf("\n%s", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "measure") && len(line) > 81 {
			t.Errorf("the table is wider than 80 columns: %q", line)
		}
	}
}

// A higher figure breaks a bound, a lower one asks for a smaller exception, and shrinking
// never adds or raises one.
func TestExceptionsOnlyShrink(t *testing.T) {
	now := func(a, b int) []*measure {
		return []*measure{{name: "files", limit: 25, items: []item{{subject: "a", value: a}, {subject: "b", value: b}}}}
	}
	allowed := exceptions{{"files", "a"}: 30}
	for _, c := range []struct {
		a, b, broken int
		shrunk       exceptions
	}{
		{30, 25, 0, exceptions{{"files", "a"}: 30}},
		{31, 25, 1, exceptions{{"files", "a"}: 30}},
		{29, 25, 1, exceptions{{"files", "a"}: 29}},
		{25, 25, 1, exceptions{}},
		{30, 26, 1, exceptions{{"files", "a"}: 30}},
	} {
		if got := allowed.compareFigures(now(c.a, c.b)); len(got) != c.broken {
			t.Errorf("a %d, b %d: broken: %q", c.a, c.b, got)
		}
		if got := allowed.shrunk(now(c.a, c.b)); !equal(got, c.shrunk) {
			t.Errorf("a %d, b %d: shrunk to %v", c.a, c.b, got)
		}
	}
	path := filepath.Join(t.TempDir(), "exceptions.txt")
	if err := allowed.writeFile(path); err != nil {
		t.Fatal(err)
	}
	if got, err := readExceptions(path); err != nil || !equal(got, allowed) {
		t.Errorf("read %v, %v", got, err)
	}
}

func equal(a, b exceptions) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// A rate over the whole module that is met tolerates single places.
func TestARateThatIsMetNeedsNoExceptions(t *testing.T) {
	m := []*measure{{name: "persons", met: true, items: []item{{subject: "a", value: 1}}}}
	if got := (exceptions{}).compareFigures(m); len(got) != 0 {
		t.Errorf("broken: %q", got)
	}
}

func TestTurnsOfSpeechAreFound(t *testing.T) {
	for _, c := range []struct {
		turn, text string
		want       int
	}{
		{"openings", "Who is outside is not told. What comes later waits.", 2},
		{"openings", "What happens then? Members are told who waits.", 0},
		{"persons", "nobody waits for others", 2},
		{"at-once", "Both are sent at once.", 1},
		{"speech", "the leader says so", 1},
		{"speech", "Region.Tell returns", 0},
		{"retired-words", "it is no more", 1},
	} {
		i := slices.IndexFunc(turns, func(x turn) bool { return x.name == c.turn })
		ms := turns[i].measure([]prose{{subject: "p", text: c.text}}, 10)
		got := 0
		for _, it := range ms.items {
			got += it.value
		}
		if got != c.want {
			t.Errorf("%s in %q: %d, want %d", c.turn, c.text, got, c.want)
		}
		if c.want > 0 && ms.met {
			t.Errorf("%s in %q: met", c.turn, c.text)
		}
	}
}

// A phrase that is broken over two lines is found, and a row of a table stands alone.
func TestParagraphsOfPages(t *testing.T) {
	m := &module{pages: []page{{"a.md", "# Title\n\nOne line\nand two.\n- an item\n  goes on\n| a row |\n| b row |\n\n```\ncode\n```\nend"}}}
	var got []string
	for _, p := range pageTexts(m) {
		got = append(got, p.where+" "+p.text)
	}
	want := []string{"a.md:1 # Title", "a.md:3 One line and two.", "a.md:5 - an item goes on", "a.md:7 | a row |", "a.md:8 | b row |", "a.md:13 end"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCitationsOfTextsThatAreNotHere(t *testing.T) {
	m := &module{paths: map[string]bool{"docs/GLOSSARY.md": true, "gossip/echo.go": true}}
	ms := citations(m, []prose{{subject: "gossip", text: "see docs/GLOSSARY.md, echo.go, DESIGN 4.1 and reference/memberlist.md over HTTP 1"}})
	if len(ms.items) != 1 || ms.items[0].value != 2 {
		t.Errorf("%+v", ms.items)
	}
}

// A file of another system or build tag is a file of its package; tests are not.
func TestFilesUnderBuildTagsCount(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &module{fset: token.NewFileSet()}
	p, err := m.checkTypes(golist.Package{ImportPath: modulePath + "/a", Dir: dir, GoFiles: []string{"a.go"},
		IgnoredGoFiles: []string{"a_plan9.go", "race.go", "a_plan9_test.go"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.packages = []*pack{p}
	if files := structure(m)[0]; files.name != "files" || len(files.items) != 1 || files.items[0].value != 3 {
		t.Errorf("%s: %+v, want 3 files", files.name, files.items)
	}
}

// Files a <- b <- c have no upward reference in the order c, b, a; a circle has one.
func TestUpwardReferencesAreTheFewestOfAnyOrder(t *testing.T) {
	edges := func(n int, pairs ...[2]int) [][]bool {
		uses := make([][]bool, n)
		for i := range uses {
			uses[i] = make([]bool, n)
		}
		for _, p := range pairs {
			uses[p[0]][p[1]] = true
		}
		return uses
	}
	for _, c := range []struct {
		uses [][]bool
		want int
	}{
		{edges(3, [2]int{2, 1}, [2]int{1, 0}, [2]int{2, 0}), 0},
		{edges(3, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}), 1},
		{edges(4, [2]int{0, 1}, [2]int{1, 0}, [2]int{2, 3}, [2]int{3, 2}, [2]int{0, 2}), 2},
	} {
		if got := backward(c.uses, layered(c.uses)); got != c.want {
			t.Errorf("%v: %d upward, want %d", c.uses, got, c.want)
		}
	}
}

func TestInternalTypesInSignatures(t *testing.T) {
	clock := types.NewPackage(modulePath+"/internal/clock", "clock")
	instant := types.NewNamed(types.NewTypeName(0, clock, "Instant", nil), types.Typ[types.Int], nil)
	gossip := types.NewPackage(modulePath+"/gossip", "gossip")
	config := types.NewNamed(types.NewTypeName(0, gossip, "Config", nil), types.NewStruct([]*types.Var{
		types.NewField(0, gossip, "At", types.NewSlice(instant), false),
		types.NewField(0, gossip, "at", instant, false),
		types.NewField(0, gossip, "N", types.Typ[types.Int], false),
	}, nil), nil)
	gossip.Scope().Insert(config.Obj())
	if got := namesLeaking(&pack{types: gossip}); !slices.Equal(got, []string{"Config.At: internal/clock"}) {
		t.Errorf("%q", got)
	}
	if got := countExportedTypes(&pack{types: gossip}); got != 1 {
		t.Errorf("%d exported types", got)
	}
}

func TestOneWord(t *testing.T) {
	for name, want := range map[string]bool{"settle": true, "settleAll": false, "Settle": false, "call0": false} {
		if oneWord(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// Each kind of declaration has a line, unexported ones have none, and a line that is
// missing or too many is reported.
func TestDeclarationsOfTheAPI(t *testing.T) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", `package p
type hidden struct{ N int }
type S struct { A []int; b int }
func (s *S) M(n int) error { return nil }
func (s S) m() {}
type I[T any] interface { Do(T) }
type Al = S
type N int
const C N = 3
var V hidden
func F[T any](t T, s ...S) (n N) { return 0 }
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	types, err := new(types.Config).Check("p", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := api(&module{packages: []*pack{{types: types}}})
	want := apiHead + `p: const N C = 3
p: func F[T any](t T, s ...S) (n N)
p: method I.Do(T)
p: method S.M(n int) error
p: type Al = S
p: type I[T any] interface
p: type N int
p: type S struct with unexported fields
p: type S struct, A []int
p: var V hidden
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if b := compareAPI(want, got); len(b) != 0 {
		t.Errorf("equal texts differ: %q", b)
	}
	if b := compareAPI(want+"p: var W int\n", strings.Replace(got, "p: type N int\n", "", 1)); len(b) != 2 {
		t.Errorf("two differences: %q", b)
	}
}

func TestPackagesStandOnTheFloorWithTheLongestPath(t *testing.T) {
	m := &module{pages: []page{{floorsPage, "# The house\n\n| floor | where | what |\n|---|---|---|\n" +
		"| faces | `node.go`, `ddata/` | a |\n| cores | `internal/core/view/` | b |\n| beside it | `internal/` | c |\n\ntext\n"}}}
	floors, err := readFloors(m)
	if err != nil || len(floors) != 3 {
		t.Fatalf("%d floors, %v; want 3", len(floors), err)
	}
	floors = append(floors, &floor{name: "elsewhere"})
	for dir, want := range map[string]string{
		".": "faces", "ddata": "faces", "internal/core/view": "cores", "internal/core/viewer": "beside it", "internal/sim": "beside it", "crdt": "elsewhere",
	} {
		if got := floorOf(floors, dir).name; got != want {
			t.Errorf("%s stands on %q, want %q", dir, got, want)
		}
	}
	if _, err := readFloors(&module{pages: []page{{floorsPage, "no table"}}}); err == nil {
		t.Error("a page without the table is accepted")
	}
}
