package lint

import (
	"go/ast"
	"go/build"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/lint/golist"
)

// TestCoresSortMaps finds ranges over maps in cores. Go iterates maps in random
// order, and a core's output must depend on its input alone: the function must
// sort what it collected, use slices.Sorted, or carry the comment "order-free:"
// with the reason on the range's line or the line above.
func TestCoresSortMaps(t *testing.T) {
	byPkg := map[string][]*file{}
	for _, f := range tree(t) {
		if slices.Contains(cores, f.pkg) && !f.test && f.builds() {
			byPkg[f.pkg] = append(byPkg[f.pkg], f)
		}
	}
	var patterns []string
	for pkg := range byPkg { // order-free: the go command sorts packages
		patterns = append(patterns, "./"+pkg)
	}
	listed, err := golist.Load("../..", "", patterns...)
	if err != nil {
		t.Fatal(err)
	}
	var imports types.Importer // one for all packages: it reads each import once
	for pkg, files := range byPkg {
		if imports == nil {
			imports = golist.Importer(files[0].fset, listed)
		}
		info := check(t, pkg, files, imports)
		for _, f := range files {
			for _, decl := range f.ast.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
					unsortedRanges(t, f, fn, info)
				}
			}
		}
	}
}

func (f *file) builds() bool {
	dir, name := "../../"+f.pkg, f.path[strings.LastIndex(f.path, "/")+1:]
	ok, err := build.Default.MatchFile(dir, name)
	return err == nil && ok
}

func check(t *testing.T, pkg string, files []*file, imports types.Importer) *types.Info {
	t.Helper()
	fset := files[0].fset
	var asts []*ast.File
	for _, f := range files {
		asts = append(asts, f.ast)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: imports}
	if _, err := conf.Check(module+"/"+pkg, fset, asts, info); err != nil {
		t.Fatalf("%s does not type-check: %v", pkg, err)
	}
	return info
}

func unsortedRanges(t *testing.T, f *file, fn *ast.FuncDecl, info *types.Info) {
	sorts := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "sort" || pkg.Name == "slices" && strings.HasPrefix(sel.Sel.Name, "Sort")) {
				sorts = true
			}
		}
		return true
	})
	if sorts {
		return
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		r, ok := n.(*ast.RangeStmt)
		if !ok {
			return true
		}
		tv, ok := info.Types[r.X]
		if !ok || !isMap(tv.Type) || f.saysOrderFree(r.Pos()) {
			return true
		}
		t.Errorf("%s:%d: %s ranges over a map and sorts nothing: sort, or say `// order-free: why`", f.path, f.line(r), fn.Name.Name)
		return true
	})
}

func isMap(typ types.Type) bool {
	if p, ok := typ.(*types.TypeParam); ok {
		typ = p.Constraint()
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}

func (f *file) saysOrderFree(pos token.Pos) bool {
	line := f.fset.Position(pos).Line
	for _, group := range f.ast.Comments {
		last := f.fset.Position(group.End()).Line
		if strings.Contains(group.Text(), "order-free:") && (last == line || last == line-1) {
			return true
		}
	}
	return false
}
