package main

import (
	"fmt"
	"regexp"
	"strings"
)

// patch plants one bug in the files of one package.
type patch struct {
	path     string   // of the patch, relative to the root
	name     string   // as tests plant it
	bug      string   // what the code does with it
	breaks   []string // ids of the statements that no longer hold
	caughtBy []catcher
	hunks    []hunk
}

// catcher is a test that must detect the bug.
type catcher struct{ pkg, test string }

func (c catcher) String() string { return c.pkg + " " + c.test }

// hunk changes some lines of one function.
type hunk struct {
	file  string // in the directory of the package
	fn    string // beginning of the function's first line; unique in the file
	lines []string
}

var (
	fileLine = regexp.MustCompile(`^--- ([a-z0-9_]+\.go)$`)
	fnLine   = regexp.MustCompile(`^@@ (func .+)$`)
	switched = regexp.MustCompile(`planted\.On\("([^"]*)"\)`)
)

// parsePatch reads a patch: a header, then hunks. A hunk has no line numbers: it names its
// file and its function, and its lines begin with a space (both versions), "-" or "+".
func parsePatch(path, text string) (*patch, error) {
	p := &patch{path: path}
	header, body, ok := strings.Cut(text, "\n\n")
	if !ok {
		return nil, fmt.Errorf("%s: no empty line after the header", path)
	}
	if err := p.parseHeader(header); err != nil {
		return nil, err
	}
	file := ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if m := fileLine.FindStringSubmatch(line); m != nil {
			file = m[1]
			continue
		}
		if m := fnLine.FindStringSubmatch(line); m != nil && file != "" {
			p.hunks = append(p.hunks, hunk{file: file, fn: m[1]})
			continue
		}
		if line == "" {
			line = " "
		}
		if len(p.hunks) == 0 || !strings.Contains(" +-", line[:1]) {
			return nil, fmt.Errorf("%s: not a line of a hunk: %q", path, line)
		}
		h := &p.hunks[len(p.hunks)-1]
		h.lines = append(h.lines, line)
	}
	return p, p.checkSwitches()
}

func (p *patch) parseHeader(header string) error {
	for line := range strings.Lines(header) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "planted":
			p.name = value
		case "bug":
			p.bug = value
		case "breaks":
			p.breaks = strings.Split(value, ", ")
		case "caught by":
			for c := range strings.SplitSeq(value, ", ") {
				pkg, test, _ := strings.Cut(c, " ")
				p.caughtBy = append(p.caughtBy, catcher{pkg, test})
			}
		default:
			return fmt.Errorf("%s: not a line of a header: %q", p.path, line)
		}
	}
	if p.name == "" || p.bug == "" || len(p.breaks) == 0 || len(p.caughtBy) == 0 {
		return fmt.Errorf(`%s: the header needs "planted", "bug", "breaks" and "caught by"`, p.path)
	}
	return nil
}

// checkSwitches reports a hunk that changes anything while its bug is switched off: added
// lines must name the switch, and no other one.
func (p *patch) checkSwitches() error {
	if len(p.hunks) == 0 {
		return fmt.Errorf("%s: no hunk", p.path)
	}
	for _, h := range p.hunks {
		named := switched.FindAllStringSubmatch(strings.Join(h.side('+'), "\n"), -1)
		if len(named) == 0 {
			return fmt.Errorf("%s: a hunk in %s has no switch", p.path, h.fn)
		}
		for _, m := range named {
			if m[1] != p.name {
				return fmt.Errorf("%s: the switch %q is not the name %q", p.path, m[1], p.name)
			}
		}
	}
	return nil
}

// side returns the lines of a hunk on one side: '-' before it, '+' after it.
func (h hunk) side(sign byte) []string {
	var lines []string
	for _, l := range h.lines {
		if l[0] == ' ' || l[0] == sign {
			lines = append(lines, l[1:])
		}
	}
	return lines
}
