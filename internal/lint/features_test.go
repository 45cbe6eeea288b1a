package lint

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestFeaturesAreWhereTheySay checks docs/FEATURES.md: each symbol of the second
// column is exported, each row names an Example or a test, and what is not here says
// why. That the tests exist is TestGuaranteesNameRealTests' part.
func TestFeaturesAreWhereTheySay(t *testing.T) {
	exported := exportedNames(t)
	text, err := os.ReadFile("../../docs/FEATURES.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, symbols := 0, 0
	symbol := regexp.MustCompile("`([^`]*)`")
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| feature ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			t.Errorf("%d columns: %s", len(cells), line)
			continue
		}
		rows++
		feature, api, shown, note := strings.TrimSpace(cells[0]), cells[1], cells[2], strings.TrimSpace(cells[3])
		if strings.TrimSpace(api) == "not here" {
			if note == "" {
				t.Errorf("%q is not here, and nobody says why", feature)
			}
			continue
		}
		if !symbol.MatchString(shown) {
			t.Errorf("nothing shows %q", feature)
		}
		for _, m := range symbol.FindAllStringSubmatch(api, -1) {
			if symbols++; !exported[m[1]] {
				t.Errorf("%q: there is no %s", feature, m[1])
			}
		}
	}
	if rows < 60 || symbols < 80 {
		t.Errorf("only %d rows with %d symbols were found", rows, symbols)
	}
}

// exportedNames returns what library packages export: "package.Name", and
// "package.Name.Member" for the methods, fields and methods of interfaces of a type. An
// alias has the members of what it stands for.
func exportedNames(t *testing.T) map[string]bool {
	x := exports{names: map[string]bool{}, members: map[string][]string{}, aliases: map[string]string{}}
	for _, f := range tree(t) {
		if !f.library() || in(f.pkg, "internal") {
			continue
		}
		pkg := path.Base(f.pkg)
		if f.pkg == "." {
			pkg = path.Base(module)
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				x.function(pkg, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					x.spec(pkg, spec)
				}
			}
		}
	}
	for name, of := range x.aliases { // order-free: fills a set
		x.members[name] = append(x.members[name], x.members[of]...)
	}
	for typ, all := range x.members { // order-free: fills a set
		for _, m := range all {
			x.names[typ+"."+m] = true
		}
	}
	return x.names
}

type exports struct {
	names   map[string]bool
	members map[string][]string
	aliases map[string]string
}

func (x *exports) function(pkg string, d *ast.FuncDecl) {
	if d.Recv == nil {
		x.names[pkg+"."+d.Name.Name] = true
	} else {
		x.member(pkg, typeName(d.Recv.List[0].Type), d.Name.Name)
	}
}

func (x *exports) spec(pkg string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			x.names[pkg+"."+n.Name] = true
		}
	case *ast.TypeSpec:
		x.names[pkg+"."+s.Name.Name] = true
		for _, m := range membersOf(s.Type) {
			x.member(pkg, s.Name.Name, m)
		}
		if s.Assign.IsValid() {
			x.aliases[pkg+"."+s.Name.Name] = stringOf(s.Type)
		}
	}
}

func (x *exports) member(pkg, typ, member string) {
	if ast.IsExported(typ) && ast.IsExported(member) {
		x.members[pkg+"."+typ] = append(x.members[pkg+"."+typ], member)
	}
}

// membersOf returns the fields of a struct, or the methods of an interface.
func membersOf(x ast.Expr) (names []string) {
	var list *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// typeName returns the name of a receiver's type.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// stringOf returns "package.Name" of a qualified type, with or without arguments.
func stringOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return typeName(x.X) + "." + x.Sel.Name
	case *ast.IndexExpr:
		return stringOf(x.X)
	case *ast.IndexListExpr:
		return stringOf(x.X)
	}
	return ""
}
