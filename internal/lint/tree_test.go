package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/peerage-go/peerage"

// file is one parsed source file of the tree.
type file struct {
	path string // relative to the module's root, with slashes
	pkg  string // directory of path, "." for the root
	test bool
	ast  *ast.File
	fset *token.FileSet
	src  []byte
}

func (f *file) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

// tree returns every Go file of the module, parsed once for all tests: none changes what it
// is given. Other modules below the root are left out.
func tree(t *testing.T) []*file {
	t.Helper()
	files, err := parsedTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d files found: the walk is broken", len(files))
	}
	return files
}

var parsedTree = sync.OnceValues(func() (files []*file, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, p, d.Name())
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parseFile(fset, root, p)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	return files, err
})

func parseFile(fset *token.FileSet, root, p string) (*file, error) {
	src, err := os.ReadFile(p)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(fset, p, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, p)
	if err != nil {
		return nil, err
	}
	rel = filepath.ToSlash(rel)
	return &file{
		path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
		ast: parsed, fset: fset, src: src,
	}, nil
}

func skipDir(root, p, name string) error {
	if p == root {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// in reports whether pkg is dir or lies below it.
func in(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// library reports whether the file is compiled into someone else's process.
func (f *file) library() bool {
	return !f.test && !in(f.pkg, "cmd") && !in(f.pkg, "examples") && !in(f.pkg, "bench") && !in(f.pkg, "internal/lint") && !in(f.pkg, "internal/mutate") && !in(f.pkg, "internal/judge") && !in(f.pkg, "internal/explore")
}
