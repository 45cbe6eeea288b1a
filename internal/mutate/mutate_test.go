package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/mutate/switches"
)

const source = `package a

type counter struct {
	n    int
	full bool
}

func (c *counter) add(k int) bool {
	if c.full || k < 1 {
		return false
	}
	c.n = min(c.n+k, 10)
	c.seen()
	traceAdd(c.n)
	for i := 0; i >= k && c.full; i++ {
		c.n++
	}
	return c.n > 5
}

func (c *counter) seen()          {}
func (c *counter) String() string { c.n++; return "" }
func traceAdd(int)                {}
`

// scan returns the sites of a source and the source with their switches.
func scan(t *testing.T, src string) ([]*site, string) {
	t.Helper()
	p := &pkg{path: "a", dir: "a", fset: token.NewFileSet()}
	f, err := parser.ParseFile(p.fset, "a.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	p.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.Default()}
	if _, err := conf.Check("a", p.fset, []*ast.File{f}, p.info); err != nil {
		t.Fatal(err)
	}
	last := 0
	sites, edits := scanFile(p, "a/a.go", []byte(src), f, func() int { last++; return last })
	return sites, string(rewrite([]byte(src), edits))
}

func TestSitesOfASource(t *testing.T) {
	sites, _ := scan(t, source)
	var got []string
	for _, s := range sites {
		got = append(got, strings.TrimPrefix(s.siteKey(), "a/a.go counter.add: "))
	}
	want := []string{
		"drop: c.n = min(c.n+k, 10)", "drop: c.seen()",
		"negate: c.full || k < 1", "drop left operand: c.full || k < 1", "drop right operand: c.full || k < 1",
		"off by one: k < 1", "negate: false", "swap min and max: min(c.n+k, 10)", "swap + and -: c.n+k",
		"drop left operand: i >= k && c.full", "drop right operand: i >= k && c.full", "off by one: i >= k",
		"drop: c.n++", "negate: c.n > 5", "off by one: c.n > 5",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("sites:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSwitchesNestInTheSource(t *testing.T) {
	_, text := scan(t, "package a\n\nfunc f(a, b, c int) bool {\n\treturn a < b-1 && min(a, b) != c\n}\n")
	want := "return (switches.On(1) != ((switches.On(2) || (switches.Less(4, a , switches.Subtract(5, b,1)))) && (switches.On(3) || (switches.Min(6, a, b) != c))))"
	if !strings.Contains(text, want) {
		t.Errorf("%s\nwant %s", text, want)
	}
}

func TestEqualChangesOfAFunctionHaveNumbers(t *testing.T) {
	sites, _ := scan(t, "package a\n\nfunc f(n *int) {\n\t*n++\n\t*n++\n}\n")
	if len(sites) != 2 || sites[0].siteKey() != "a/a.go f: drop: *n++" || sites[1].siteKey() != "a/a.go f: drop: *n++ (2)" {
		t.Errorf("%+v", sites)
	}
}

func TestEquivalentMutantsAreLeftOutAndMustExist(t *testing.T) {
	sites, _ := scan(t, source)
	p := &pkg{dir: "a", sites: sites}
	file := filepath.Join(t.TempDir(), "equivalent.txt")
	read := func(text string) equivalents {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := readEquivalent(file)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := read("# reasons\n\na/a.go counter.add: drop left operand: c.full || k < 1 | full counters have k 0\nb/b.go f: drop: x++ | of another package\n")
	if err := e.check([]*pkg{p}); err != nil {
		t.Error(err)
	}
	if drawn := drawMutants([]*pkg{p}, e, options{}); len(drawn) != len(sites)-1 {
		t.Errorf("%d of %d are drawn", len(drawn), len(sites))
	}
	if err := read("a/a.go counter.add: drop: c.gone() | it is gone\n").check([]*pkg{p}); err == nil {
		t.Error("an entry that matches nothing is accepted")
	}
	if err := os.WriteFile(file, []byte("a/a.go counter.add: drop: c.seen()\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readEquivalent(file); err == nil {
		t.Error("an entry without a reason is accepted")
	}
}

func TestADrawDependsOnItsSeedAlone(t *testing.T) {
	sites, _ := scan(t, source)
	p := &pkg{dir: "a", sites: sites}
	keys := func(seed uint64) (all []int) {
		for _, m := range drawMutants([]*pkg{p}, nil, options{n: 5, seed: seed}) {
			all = append(all, m.id)
		}
		return all
	}
	if a, b := keys(1), keys(1); len(a) != 5 || !slices.Equal(a, b) || !slices.IsSorted(a) {
		t.Errorf("%v and %v", a, b)
	}
	if slices.Equal(keys(1), keys(2)) {
		t.Error("two seeds draw the same")
	}
}

// Entries of equivalent.txt whose sources have changed would leave mutants of other sources in.
func TestEquivalentMutantsAreInTheSources(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	e, err := readEquivalent("equivalent.txt")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for key := range e {
		file, _, _ := strings.Cut(key, " ")
		if dir := "./" + path.Dir(file); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	packages, err := loadPackages(root, dirs)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.check(packages); err != nil {
		t.Error(err)
	}
}

// Seeds are numbers, or texts such as the hash of a commit.
func TestSeedsAreNumbersOrTexts(t *testing.T) {
	if n := seedOf("7"); n != 7 {
		t.Errorf("7 is %d", n)
	}
	if a, b := seedOf("8a205994"), seedOf("03ae4323"); a == b || a != seedOf("8a205994") {
		t.Errorf("two commits have the seeds %d and %d", a, b)
	}
}

// What survived can be played again, from the output of the command.
func TestSurvivorsArePlayedAgain(t *testing.T) {
	sites, _ := scan(t, source)
	out := filepath.Join(t.TempDir(), "out")
	text := "a: 3 mutants\nkilled         a/a.go counter.add: drop: c.n++ (line 17): TestA\n" +
		"survives       a/a.go counter.add: drop: c.seen() (line 14)\nis not reached a/a.go counter.add: negate: c.n > 5 (line 19)\n\na    3 mutants,     1 killed,  33.3 %\n"
	if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := readSurvivors(out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range drawMutants([]*pkg{{dir: "a", sites: sites}}, nil, options{again: again}) {
		got = append(got, m.op+": "+m.text)
	}
	slices.Sort(got)
	if want := []string{"drop: c.seen()", "negate: c.n > 5"}; !slices.Equal(got, want) {
		t.Errorf("plays %q, want %q", got, want)
	}
}

// What compares the state of a core with its invariants is no rule that tests could notice.
func TestCheckersHaveNoMutants(t *testing.T) {
	sites, _ := scan(t, "package a\n\ntype core struct{ n int }\n\nfunc (c *core) Check() bool { return c.n > 0 }\n\nfunc (c *core) checkShard(s int) bool { return c.n > s }\n\nfunc Check(n int) bool { return n > 0 }\n")
	for _, s := range sites {
		if s.fn != "Check" {
			t.Errorf("%s", s.siteKey())
		}
	}
	if len(sites) != 2 {
		t.Errorf("%d sites", len(sites))
	}
}

// The command kills the mutants that the tests of a small package notice, and names the others.
func TestTheCommandPlaysAPackage(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o := options{only: "Order.AcceptNumber: drop: o.next++", jobs: 2, min: 100, verbose: true, patterns: []string{"./internal/core/chunks"}}
	if err := runCommand(&out, root, o); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "drop: o.next++ (line ") || !strings.Contains(out.String(), "100.0 %") {
		t.Error(out.String())
	}
}

// TestMethodsOfGenericTypesHaveTheirReceiver checks that the key of a mutant names the receiver of
// its function, with no, one, and several type parameters.
func TestMethodsOfGenericTypesHaveTheirReceiver(t *testing.T) {
	sites, _ := scan(t, "package a\n\ntype one[K any] struct{ n int }\n\ntype two[K, V any] struct{ n int }\n\nfunc (o one[K]) get() bool { return o.n == 1 }\n\nfunc (o *two[K, V]) get() bool { return o.n == 2 }\n")
	var got []string
	for _, s := range sites {
		got = append(got, s.fn)
	}
	if want := []string{"one.get", "two.get"}; !slices.Equal(got, want) {
		t.Errorf("the functions are %q, want %q", got, want)
	}
}

// TestAMutantThatWaitsForeverIsStopped checks that a run which waits is stopped at its bound, and
// is no failure of a test yet; a run that ends is not stopped.
func TestAMutantThatWaitsForeverIsStopped(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "waits.test")
	script := "#!/bin/sh\nif [ \"$" + switches.EnvMutant + "\" = 1 ]; then exec tail -f /dev/null; fi\n"
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	pl, s := &player{}, &suite{path: "a", binary: binary}
	if killer, waits, err := pl.runMutant(s, &site{id: 1}, cost{}, time.Millisecond, []string{"TestA"}); killer != "" || !waits || err != nil {
		t.Errorf("a run without an end returns %q, %t, %v", killer, waits, err)
	}
	if killer, waits, err := pl.runMutant(s, &site{id: 2}, cost{}, time.Hour, []string{"TestA"}); killer != "" || waits || err != nil {
		t.Errorf("a run that ends returns %q, %t, %v", killer, waits, err)
	}
}

// TestSlownessKillsNoMutant checks that a run which is stopped at its bound is a failure only if
// the same tests without the mutant need less than a third of it.
func TestSlownessKillsNoMutant(t *testing.T) {
	if isSlowness(time.Second, 6*time.Second) {
		t.Error("a sixth of the bound counts as slow")
	}
	if !isSlowness(2*time.Second, 6*time.Second) {
		t.Error("a third of the bound does not count as slow")
	}
}
