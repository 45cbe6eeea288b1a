package lint

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// campaign is a command of .ci/run that plays campaigns in full: its packages, and the pattern of
// the tests that it plays.
type campaign struct {
	packages []string
	run      *regexp.Regexp
}

// campaigns returns the commands of a script that play campaigns in full.
func campaigns(script string) (all []campaign) {
	for line := range strings.Lines(script) {
		command, found := strings.CutPrefix(strings.TrimSpace(line), "PEERAGE_CAMPAIGN=1 go test ")
		if !found || strings.Contains(command, "-short") {
			continue
		}
		c := campaign{run: regexp.MustCompile("")}
		words := strings.Fields(command)
		for i, word := range words {
			switch {
			case word == "-run":
				c.run = regexp.MustCompile(strings.Trim(words[i+1], "'"))
			case strings.HasPrefix(word, "./"):
				c.packages = append(c.packages, word)
			}
		}
		all = append(all, c)
	}
	return all
}

// plays reports whether the command plays a test of a package.
func (c campaign) plays(pkg, test string) bool {
	return c.run.MatchString(test) && slices.ContainsFunc(c.packages, func(p string) bool {
		dir, below := strings.CutSuffix(path.Clean(p), "/...")
		return dir == pkg || below && in(pkg, dir)
	})
}

// TestCIPlaysWhatOthersSkip checks that a command of .ci/run plays each test that only CI plays, those
// that call testsize.OnlyFull.
func TestCIPlaysWhatOthersSkip(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	commands, found := campaigns(string(script)), 0
	for _, f := range tree(t) {
		for _, test := range onlyFull(f) {
			found++
			if !slices.ContainsFunc(commands, func(c campaign) bool { return c.plays(f.pkg, test) }) {
				t.Errorf("%s: no command of .ci/run that sets PEERAGE_CAMPAIGN plays %s", f.path, test)
			}
		}
	}
	if found == 0 || len(commands) < 2 {
		t.Errorf("%d tests call testsize.OnlyFull, %d commands play campaigns", found, len(commands))
	}
}

// onlyFull returns the tests of a file that only CI plays.
func onlyFull(f *file) (tests []string) {
	for _, decl := range f.ast.Decls {
		test, is := decl.(*ast.FuncDecl)
		if !is || !f.test {
			continue
		}
		ast.Inspect(test, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is && s.Sel.Name == "OnlyFull" {
				tests = append(tests, test.Name.Name)
			}
			return true
		})
	}
	return tests
}

// TestATestThatNoCommandPlaysIsFound shows that the check can fail.
func TestATestThatNoCommandPlaysIsFound(t *testing.T) {
	commands := campaigns("step x\nPEERAGE_CAMPAIGN=1 go test -tags a ./crdt ./internal/core/...\n" +
		"go test -run TestD ./d\n\tPEERAGE_CAMPAIGN=1 go test -run 'TestA|TestB' ./cmd/peerage\nPEERAGE_CAMPAIGN=1 go test -short ./short\n")
	for _, tc := range []struct {
		pkg, test string
		played    bool
	}{
		{"crdt", "TestX", true}, {"crdt/sub", "TestX", false}, {"internal/core", "TestX", true}, {"internal/core/view", "TestX", true},
		{"internal/corepack", "TestX", false}, {"cmd/peerage", "TestA", true}, {"cmd/peerage", "TestC", false}, {"d", "TestD", false}, {"short", "TestX", false},
	} {
		if got := slices.ContainsFunc(commands, func(c campaign) bool { return c.plays(tc.pkg, tc.test) }); got != tc.played {
			t.Errorf("%s of %s: %v", tc.test, tc.pkg, got)
		}
	}
}
