package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/peerage-go/peerage/cmd/peerage/internal/settings"
)

var (
	marked    = regexp.MustCompile("`([^`\n]+)`")
	invoked   = regexp.MustCompile(`(?:^|[\s;|&])(?:go run \./cmd/)?peerage ((?:--[a-z-]+ )*[a-z].*)$`)
	namedFlag = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// Each command line on a page has a command of the program, and flags of that command.
func TestPagesShowCommandsThatExist(t *testing.T) {
	root := (&program{configurable: map[string]bool{}}).rootCommand()
	pages := []string{"../../README.md", "../../GUARANTEES.md", "../../SECURITY.md", "../../CONTRIBUTING.md", "../../deploy/README.md", "../../bench/README.md"}
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) < 10 {
		t.Fatalf("%d pages, error %v", len(docs), err)
	}
	lines := 0
	for _, page := range append(pages, docs...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(string(text)) {
			lines++
			if problem := checkLine(root, line); problem != "" {
				t.Errorf("%s: peerage %s: %s", page, line, problem)
			}
		}
	}
	if lines < 50 {
		t.Errorf("only %d command lines found", lines)
	}
}

// commandLines returns what follows the program's name in code marks and in blocks of code.
func commandLines(page string) []string {
	var out []string
	add := func(code string) {
		if m := invoked.FindStringSubmatch(code); m != nil {
			line, _, _ := strings.Cut(m[1], " #")
			out = append(out, line)
		}
	}
	block := false
	for _, line := range strings.Split(strings.ReplaceAll(page, "\\\n", " "), "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			block = !block
		case block:
			add(line)
		default:
			for _, m := range marked.FindAllStringSubmatch(line, -1) {
				add(m[1])
			}
		}
	}
	return out
}

// checkLine returns an error in a command line, or nothing.
func checkLine(root *cobra.Command, line string) string {
	words := strings.Fields(line)
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	cmd, _, err := root.Find(words[:1])
	if err != nil || cmd == root {
		return "no such command"
	}
	cmd.InitDefaultHelpFlag()
	for _, m := range namedFlag.FindAllStringSubmatch(line, -1) {
		if cmd.Flags().Lookup(m[1]) == nil && cmd.InheritedFlags().Lookup(m[1]) == nil {
			return "no flag --" + m[1]
		}
	}
	return ""
}

// The check finds commands and flags that do not exist.
func TestWrongCommandLinesAreFound(t *testing.T) {
	root := (&program{configurable: map[string]bool{}}).rootCommand()
	page := "`peerage node --join x` and `peerage nod`\n```\ngo run ./cmd/peerage chaos --preset n-1 --replicas 3 # text\n" +
		"peerage sim --seed 1 \\\n  --sed 2\n$ peerage bench --json\npeerage COMMAND --help\n```\n`peerage_shards` is a metric, package peerage a package\n"
	want := []string{"", "no such command", "", "no flag --sed", ""}
	lines := commandLines(page)
	var got []string
	for _, line := range lines {
		got = append(got, checkLine(root, line))
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("lines %q\ngot  %q\nwant %q", lines, got, want)
	}
}

// The reference of settings has a row for each flag of node that its help lists, with its
// variable and its default.
func TestEveryFlagOfNodeIsInTheReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range strings.Split(string(page), "\n") {
		if name, ok := strings.CutPrefix(row, "| `--"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows[name] = row
		}
	}
	cmd := (&program{configurable: map[string]bool{}}).nodeCommand()
	listed := 0
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "config" {
			return
		}
		listed++
		row := rows[f.Name]
		if !strings.Contains(row, "`"+settings.Variable(f.Name)+"`") {
			t.Errorf("--%s has the row %q", f.Name, row)
		}
		if f.DefValue != "" && f.DefValue != "[]" && !strings.Contains(row, "| `"+f.DefValue+"` |") {
			t.Errorf("the default of --%s is %s, the row is %s", f.Name, f.DefValue, row)
		}
	})
	if listed != len(rows) {
		t.Errorf("%d flags, %d rows", listed, len(rows))
	}
}
