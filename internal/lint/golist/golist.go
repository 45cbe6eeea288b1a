// Package golist loads the packages of a module with the go command, for tools that check types.
package golist

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Package is a package as the go command describes it.
type Package struct {
	ImportPath, Dir string
	// Export is the file of the package's export data.
	Export                    string
	GoFiles, IgnoredGoFiles   []string
	TestGoFiles, XTestGoFiles []string
	Imports                   []string
	// DepOnly is set on a package that no pattern names, but that one of these imports.
	DepOnly bool
}

// Load compiles the packages of the patterns with all that they import, in the module that
// contains dir. Each package follows its imports.
func Load(dir, tags string, patterns ...string) ([]Package, error) {
	args := []string{"list", "-export", "-deps", "-tags", tags,
		"-json=ImportPath,Dir,Export,GoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,DepOnly"}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var all []Package
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

// Importer returns an importer that reads the export data of the packages.
func Importer(fset *token.FileSet, packages []Package) types.Importer {
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
}
