package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// switchPackage is what every patched file imports.
const switchPackage = "github.com/peerage-go/peerage/internal/planted"

// edit replaces the lines [from, to) of a file.
type edit struct {
	from, to int
	lines    []string
	patch    *patch
}

// applyHunks returns a source with all hunks applied, and the import of their switches.
// Each hunk is matched with the source as it is, so patches are independent of each other.
func applyHunks(path, source string, hunks []planned) (string, error) {
	lines := strings.Split(source, "\n")
	edits, err := locateAll(path, lines, hunks)
	if err != nil {
		return "", err
	}
	var out []string
	next := 0
	for _, e := range edits {
		out = append(append(out, lines[next:e.from]...), e.lines...)
		next = e.to
	}
	out = append(out, lines[next:]...)
	for i, l := range out {
		if strings.HasPrefix(l, "package ") {
			out[i] += fmt.Sprintf("; import %q", switchPackage) // in the same line: all others keep their numbers
			return strings.Join(out, "\n"), nil
		}
	}
	return "", fmt.Errorf("%s: no package clause", path)
}

// planned is a hunk with its patch.
type planned struct {
	hunk
	patch *patch
}

// locateAll returns the edits of all hunks in the order of the file. No two change one line.
func locateAll(path string, lines []string, hunks []planned) ([]edit, error) {
	var edits []edit
	for _, h := range hunks {
		own, err := locateHunk(lines, h)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", h.patch.path, path, err)
		}
		edits = append(edits, own...)
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(a.from-b.from, a.to-b.to, cmp.Compare(a.patch.name, b.patch.name))
	})
	for i := 1; i < len(edits); i++ {
		if a, b := edits[i-1], edits[i]; b.from < a.to {
			return nil, fmt.Errorf("%s and %s change the same lines of %s: write one of them as an insertion", a.patch.path, b.patch.path, path)
		}
	}
	return edits, nil
}

// locateHunk returns the edits of one hunk. Its lines must stand exactly once in its function.
func locateHunk(lines []string, h planned) ([]edit, error) {
	begin, end, err := findFunction(lines, h.fn)
	if err != nil {
		return nil, err
	}
	old := h.side('-')
	if len(old) == 0 {
		return nil, fmt.Errorf("a hunk of %s has no context", h.fn)
	}
	at := -1
	for i := begin; i+len(old) <= end; i++ {
		if !slices.Equal(lines[i:i+len(old)], old) {
			continue
		}
		if at >= 0 {
			return nil, fmt.Errorf("the lines of a hunk stand twice in %s: add context", h.fn)
		}
		at = i
	}
	if at < 0 {
		return nil, fmt.Errorf("the lines of a hunk are not in %s: bring the patch up to date:\n%s", h.fn, strings.Join(old, "\n"))
	}
	var edits []edit
	open := false // the last edit goes on
	for _, l := range h.lines {
		if l[0] == ' ' {
			at, open = at+1, false
			continue
		}
		if !open {
			edits, open = append(edits, edit{from: at, to: at, patch: h.patch}), true
		}
		e := &edits[len(edits)-1]
		if l[0] == '+' {
			e.lines = append(e.lines, l[1:])
		} else {
			at++
			e.to = at
		}
	}
	return edits, nil
}

// findFunction returns the lines of the only function whose first line begins with fn.
func findFunction(lines []string, fn string) (begin, end int, err error) {
	begin = -1
	for i, l := range lines {
		if !strings.HasPrefix(l, fn) {
			continue
		}
		if begin >= 0 {
			return 0, 0, fmt.Errorf("%q begins two lines", fn)
		}
		begin = i
	}
	if begin < 0 {
		return 0, 0, fmt.Errorf("no function %q", fn)
	}
	if strings.HasSuffix(lines[begin], "}") {
		return begin, begin + 1, nil
	}
	n := slices.Index(lines[begin:], "}")
	if n < 0 {
		return 0, 0, fmt.Errorf("%q has no end", fn)
	}
	return begin, begin + n + 1, nil
}
