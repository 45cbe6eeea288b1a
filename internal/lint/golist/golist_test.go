package golist

import (
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestPackagesFollowTheirImports loads this package: its imports stand before it, with export
// data, and can be imported.
func TestPackagesFollowTheirImports(t *testing.T) {
	all, err := Load(".", "", ".")
	if err != nil {
		t.Fatal(err)
	}
	self := all[len(all)-1]
	if !strings.HasSuffix(self.ImportPath, "internal/lint/golist") || self.DepOnly || !slices.Contains(self.GoFiles, "golist.go") {
		t.Fatalf("the last package is %+v", self)
	}
	imports := Importer(token.NewFileSet(), all)
	for _, path := range self.Imports {
		if !slices.ContainsFunc(all[:len(all)-1], func(p Package) bool { return p.ImportPath == path && p.DepOnly && p.Export != "" }) {
			t.Errorf("%s is not listed as an import", path)
		}
		if p, err := imports.Import(path); err != nil || p.Path() != path {
			t.Errorf("import of %s: %v, %v", path, p, err)
		}
	}
	if _, err := imports.Import("net/http/httptest"); err == nil || !strings.Contains(err.Error(), "no export data of net/http/httptest") {
		t.Errorf("a package that was not loaded: %v", err)
	}
}

func TestAnUnknownPackageIsAnError(t *testing.T) {
	if _, err := Load(".", "", "./nosuch"); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("got %v", err)
	}
}
