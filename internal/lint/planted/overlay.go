package main

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// readPatches returns all patches of the module, sorted by path. Names are unique.
func readPatches(root string) ([]*patch, error) {
	var patches []*patch
	paths := map[string]string{} // by name
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && at != root && (strings.HasPrefix(d.Name(), ".") || isModule(at)) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(at) != ".patch" || filepath.Base(filepath.Dir(at)) != "planted" {
			return nil
		}
		p, err := readPatch(root, at)
		if err != nil {
			return err
		}
		if other := paths[p.name]; other != "" {
			return fmt.Errorf("%s and %s have one name", other, p.path)
		}
		paths[p.name] = p.path
		patches = append(patches, p)
		return nil
	})
	return patches, err
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func readPatch(root, at string) (*patch, error) {
	text, err := os.ReadFile(at)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, at)
	if err != nil {
		return nil, err
	}
	return parsePatch(filepath.ToSlash(rel), string(text))
}

// dir returns the package in which the bug is planted.
func (p *patch) dir() string { return path.Dir(path.Dir(path.Dir(p.path))) }

// applyAll returns the patched sources by their paths, relative to root. All patches are
// applied together: a switch guards each of them.
func applyAll(root string, patches []*patch) (map[string]string, error) {
	hunks := map[string][]planned{}
	for _, p := range patches {
		for _, h := range p.hunks {
			file := path.Join(p.dir(), h.file)
			hunks[file] = append(hunks[file], planned{h, p})
		}
	}
	sources := map[string]string{}
	for file, own := range hunks {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", own[0].patch.path, err)
		}
		patched, err := applyHunks(file, string(source), own)
		if err != nil {
			return nil, err
		}
		if _, err := parser.ParseFile(token.NewFileSet(), file, patched, parser.SkipObjectResolution); err != nil {
			return nil, fmt.Errorf("with its patches applied: %w", err)
		}
		sources[file] = patched
	}
	return sources, nil
}

// writeOverlay writes the patched sources into tmp, and what `go test -overlay` reads.
func writeOverlay(root, tmp string, sources map[string]string) (string, error) {
	replace := map[string]string{}
	for file, text := range sources {
		to := filepath.Join(tmp, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	at := filepath.Join(tmp, "overlay.json")
	return at, os.WriteFile(at, overlay, 0o600)
}

// catchers returns the packages and the tests that the patches name, sorted.
func catchers(patches []*patch) (packages, tests []string) {
	for _, p := range patches {
		for _, c := range p.caughtBy {
			packages, tests = append(packages, "./"+c.pkg), append(tests, c.test)
		}
	}
	slices.Sort(packages)
	slices.Sort(tests)
	return slices.Compact(packages), slices.Compact(tests)
}
