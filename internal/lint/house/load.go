package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/internal/lint/golist"
)

const modulePath = "github.com/peerage-go/peerage"

// module is the type-checked source of the module, without tests, and its pages.
type module struct {
	root     string
	fset     *token.FileSet
	packages []*pack
	pages    []page
	// paths are the files of the tree, relative to root.
	paths map[string]bool
}

// pack is one package.
type pack struct {
	dir   string // relative to the root, "." for the root
	files []*source
	// excluded counts the files, without tests, that build tags exclude here.
	excluded int
	types    *types.Package
	info     *types.Info
}

type source struct {
	path string // relative to the root
	ast  *ast.File
}

// page is a Markdown file.
type page struct {
	path, text string
}

// public reports whether other modules can import the package and are meant to.
func (p *pack) public() bool {
	return p.types.Name() != "main" && !strings.Contains("/"+p.dir+"/", "/internal/")
}

func loadModule(root string) (*module, error) {
	m := &module{root: root, fset: token.NewFileSet(), paths: map[string]bool{}}
	if err := m.walk(); err != nil {
		return nil, err
	}
	listed, err := golist.Load(root, "", "./...")
	if err != nil {
		return nil, err
	}
	imp := golist.Importer(m.fset, listed)
	for _, l := range listed {
		if l.ImportPath != modulePath && !strings.HasPrefix(l.ImportPath, modulePath+"/") {
			continue
		}
		p, err := m.checkTypes(l, imp)
		if err != nil {
			return nil, err
		}
		m.packages = append(m.packages, p)
	}
	slices.SortFunc(m.packages, func(a, b *pack) int { return strings.Compare(a.dir, b.dir) })
	if len(m.packages) < 10 {
		return nil, fmt.Errorf("only %d packages found in %s", len(m.packages), root)
	}
	return m, nil
}

// walk collects the paths of the tree and reads its pages.
func (m *module) walk() error {
	return filepath.WalkDir(m.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (d.Name() == ".git" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		m.paths[rel] = true
		if path.Ext(rel) == ".md" {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			m.pages = append(m.pages, page{rel, string(b)})
		}
		return nil
	})
}

// checkTypes parses a package and resolves its names.
func (m *module) checkTypes(l golist.Package, imp types.Importer) (*pack, error) {
	p := &pack{dir: strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, modulePath), "/")}
	if p.dir == "" {
		p.dir = "."
	}
	for _, name := range l.IgnoredGoFiles {
		if !strings.HasSuffix(name, "_test.go") {
			p.excluded++
		}
	}
	var files []*ast.File
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(m.fset, filepath.Join(l.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		p.files = append(p.files, &source{path: path.Join(p.dir, name), ast: f})
	}
	p.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: imp}
	var err error
	p.types, err = conf.Check(l.ImportPath, m.fset, files, p.info)
	return p, err
}
