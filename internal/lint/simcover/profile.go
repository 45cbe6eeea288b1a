package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is the path of the module, with which names of a profile begin.
const module = "github.com/peerage-go/peerage/"

// block is a part of a function whose statements run together, as `go tool cover` counts them.
type block struct {
	// file is relative to the root.
	file                string
	line, col, lastLine int
	statements          int
	reached             bool
	// key names the block: file, function, and the first line of its statements.
	key string
}

// dir returns the package of a block.
func (b *block) dir() string { return path.Dir(b.file) }

// readProfile reads a profile and finds the key of each block in the sources below root.
func readProfile(root, file string) ([]*block, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	byFile := map[string][]*block{}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if strings.HasPrefix(scan.Text(), "mode:") {
			continue
		}
		b, err := parseBlock(scan.Text())
		if err != nil {
			return nil, err
		}
		if b.statements > 0 {
			byFile[b.file] = append(byFile[b.file], b)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	var all []*block
	for name, blocks := range byFile {
		merged := mergeBlocks(blocks)
		if err := setKeys(root, name, merged); err != nil {
			return nil, err
		}
		all = append(all, merged...)
	}
	slices.SortFunc(all, compareBlocks)
	return all, nil
}

// parseBlock parses a line such as "core.go:12.34,15.2 3 1".
func parseBlock(line string) (*block, error) {
	name, rest, found := strings.Cut(strings.TrimPrefix(line, module), ".go:")
	b := &block{file: name + ".go"}
	var lastCol, count int
	if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.col, &b.lastLine, &lastCol, &b.statements, &count); err != nil || !found {
		return nil, fmt.Errorf("%q is no line of a profile: %w", line, err)
	}
	b.reached = count > 0
	return b, nil
}

func compareBlocks(a, b *block) int {
	if c := strings.Compare(a.file, b.file); c != 0 {
		return c
	}
	if a.line != b.line {
		return a.line - b.line
	}
	return a.col - b.col
}

// mergeBlocks sorts the blocks of a file, and merges those of several test binaries.
func mergeBlocks(blocks []*block) (merged []*block) {
	slices.SortFunc(blocks, compareBlocks)
	for _, b := range blocks {
		if n := len(merged); n > 0 && compareBlocks(merged[n-1], b) == 0 {
			merged[n-1].reached = merged[n-1].reached || b.reached
			continue
		}
		merged = append(merged, b)
	}
	return merged
}

// setKeys sets the keys of the blocks of one file.
func setKeys(root, name string, blocks []*block) error {
	functions, lines, err := readSource(filepath.Join(root, name))
	if err != nil {
		return err
	}
	seen := map[string]int{}
	for _, b := range blocks {
		f := functionAt(functions, b.line)
		b.key = fmt.Sprintf("%s %s: %s", name, f, firstLine(lines, b))
		if seen[b.key]++; seen[b.key] > 1 {
			b.key += fmt.Sprintf(" (%d)", seen[b.key])
		}
	}
	return nil
}

// function is a function of a file, from its first line to its last.
type function struct {
	name     string
	from, to int
}

func readSource(file string) ([]function, []string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	var functions []function
	for _, d := range parsed.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			functions = append(functions, function{nameOf(f), set.Position(f.Pos()).Line, set.Position(f.End()).Line})
		}
	}
	return functions, strings.Split(string(text), "\n"), nil
}

// nameOf returns "f" or "T.f".
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// functionAt names the function with a line: a variable's function literal has none.
func functionAt(functions []function, line int) string {
	for _, f := range functions {
		if f.from <= line && line <= f.to {
			return f.name
		}
	}
	return "var"
}

// firstLine returns the first line of a block that is more than braces and comments.
func firstLine(lines []string, b *block) string {
	text := lines[b.line-1][b.col-1:]
	for n := b.line; ; n++ {
		text = strings.Trim(text, " \t{")
		if text != "" && !strings.HasPrefix(text, "//") || n >= b.lastLine {
			return text
		}
		text = lines[n]
	}
}
