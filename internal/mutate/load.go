package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/internal/lint/golist"
)

const (
	modulePath   = "github.com/peerage-go/peerage"
	switchesPath = modulePath + "/internal/mutate/switches"
	// tags has the cores check their assertions.
	tags = "invariants"
)

// pkg is a package whose sources get switches.
type pkg struct {
	path string // import path
	dir  string // relative to the root
	fset *token.FileSet
	info *types.Info
	// sources are the rewritten files by their absolute paths.
	sources map[string][]byte
	sites   []*site
}

// loadPackages finds the sites of all packages that match the patterns. Sites are numbered
// from 1.
func loadPackages(root string, patterns []string) ([]*pkg, error) {
	all, err := golist.Load(root, tags, patterns...)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	imp := golist.Importer(fset, all)
	last := 0
	next := func() int { last++; return last }
	var found []*pkg
	for _, l := range all {
		if l.DepOnly || len(l.GoFiles) == 0 {
			continue
		}
		p, err := loadPackage(root, l, fset, imp, next)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

func loadPackage(root string, l golist.Package, fset *token.FileSet, imp types.Importer, next func() int) (*pkg, error) {
	dir, err := filepath.Rel(root, l.Dir)
	if err != nil {
		return nil, err
	}
	p := &pkg{path: l.ImportPath, dir: filepath.ToSlash(dir), fset: fset, sources: map[string][]byte{}}
	p.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	var files []*ast.File
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: imp}
	if _, err := conf.Check(l.ImportPath, fset, files, p.info); err != nil {
		return nil, err
	}
	for i, f := range files {
		at := filepath.Join(l.Dir, l.GoFiles[i])
		src, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		sites, edits := scanFile(p, p.dir+"/"+l.GoFiles[i], src, f, next)
		if len(sites) == 0 {
			continue
		}
		p.sites = append(p.sites, sites...)
		end := fset.Position(f.Name.End()).Offset
		edits = append(edits, edit{from: end, to: end, text: `; import "` + switchesPath + `"`})
		p.sources[at] = rewrite(src, edits)
	}
	return p, nil
}

// dependents returns the packages that match the patterns, have tests, and import a package
// directly or not, or whose tests do. Those of the simulator come last.
func dependents(root string, of *pkg, patterns []string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"list", "-test", "-tags", tags, "-f", "{{if .ForTest}}{{.ForTest}} {{join .Deps \" \"}}{{end}}"}, patterns...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var users []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == of.path || slices.Contains(users, fields[0]) {
			continue
		}
		if slices.ContainsFunc(fields[1:], func(dep string) bool { return basePath(dep) == of.path }) {
			users = append(users, fields[0])
		}
	}
	slices.SortStableFunc(users, func(a, b string) int { return inSim(a) - inSim(b) })
	return users, nil
}

// basePath removes the part of an import path that names the test it was built for.
func basePath(path string) string {
	path, _, _ = strings.Cut(path, " ")
	return path
}

func inSim(path string) int {
	if strings.HasPrefix(path, modulePath+"/internal/sim") {
		return 1
	}
	return 0
}
