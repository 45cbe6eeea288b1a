package lint

import (
	"go/ast"
	"go/token"
	"testing"
)

// standardMethod lists the methods whose meaning the standard library fixes.
var standardMethod = map[string]bool{"Error": true, "String": true, "Unwrap": true, "Is": true, "Len": true, "Less": true, "Swap": true}

// TestExportedSymbolsAreDocumented asks a comment of every exported symbol of
// the library packages that users can import.
func TestExportedSymbolsAreDocumented(t *testing.T) {
	for _, f := range tree(t) {
		if !f.library() || in(f.pkg, "internal") {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && receiverExported(d) && d.Doc == nil && !standardMethod[d.Name.Name] {
					t.Errorf("%s:%d: %s has no comment", f.path, f.line(d), d.Name.Name)
				}
			case *ast.GenDecl:
				documentedSpecs(t, f, d)
			}
		}
	}
}

func documentedSpecs(t *testing.T, f *file, d *ast.GenDecl) {
	if d.Tok == token.IMPORT {
		return
	}
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				t.Errorf("%s:%d: type %s has no comment", f.path, f.line(s), s.Name.Name)
			}
		case *ast.ValueSpec:
			// One comment may stand above a whole block of constants.
			if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil && !blockCommented(d) {
				t.Errorf("%s:%d: %s has no comment", f.path, f.line(s), s.Names[0].Name)
			}
		}
	}
}

func blockCommented(d *ast.GenDecl) bool {
	first, ok := d.Specs[0].(*ast.ValueSpec)
	return d.Tok == token.CONST && ok && first.Type != nil
}

func receiverExported(fn *ast.FuncDecl) bool {
	typ := receiverType(fn)
	return typ == nil || typ.IsExported()
}
