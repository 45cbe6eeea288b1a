package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// reasons are why the simulator does not reach statements, and how many it may miss without one.
type reasons struct {
	entries []*entry
	// bounds has, by package, how many statements may be missed without a reason.
	bounds map[string]int
	// unplayed has the reasons why packages are not played, in the order of their lines.
	unplayed []*entry
}

// entry is a reason for all blocks whose key matches a pattern, in which * stands for any text.
type entry struct {
	pattern, reason string
	statements      int
	matches         bool
}

// readReasons reads lines "pattern | reason", "unplayed package | reason" and "bound package
// number". Empty lines and those with # are comments.
func readReasons(file string) (*reasons, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &reasons{bounds: map[string]int{}}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line := strings.TrimSpace(scan.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := r.parseLine(line); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return r, scan.Err()
}

func (r *reasons) parseLine(line string) error {
	if words := strings.Fields(line); len(words) == 3 && words[0] == "bound" {
		n, err := strconv.Atoi(words[2])
		r.bounds[words[1]] = n
		return err
	}
	i := strings.LastIndex(line, " | ")
	if i < 0 || strings.TrimSpace(line[i+3:]) == "" {
		return fmt.Errorf("no reason in %q", line)
	}
	e := &entry{pattern: strings.TrimSpace(line[:i]), reason: strings.TrimSpace(line[i+3:])}
	if name, is := strings.CutPrefix(e.pattern, "unplayed "); is {
		e.pattern = name
		r.unplayed = append(r.unplayed, e)
		return nil
	}
	r.entries = append(r.entries, e)
	return nil
}

// plays reports whether the simulator plays a package.
func (r *reasons) plays(dir string) bool {
	for _, e := range r.unplayed {
		if e.pattern == dir {
			return false
		}
	}
	return true
}

// mergeReasons returns one entry for each reason, with the statements of all its patterns.
func (r *reasons) mergeReasons() (merged []*entry) {
	byReason := map[string]*entry{}
	for _, e := range r.entries {
		m := byReason[e.reason]
		if m == nil {
			m = &entry{reason: e.reason}
			byReason[e.reason] = m
			merged = append(merged, m)
		}
		m.statements += e.statements
	}
	return merged
}

// find returns the first entry for a block, nil if there is none, and notes that it matches.
func (r *reasons) find(b *block) *entry {
	for _, e := range r.entries {
		if matchPattern(e.pattern, b.key) {
			e.matches = true
			return e
		}
	}
	return nil
}

// matchPattern reports whether text has the parts of a pattern, in their order.
func matchPattern(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == text
	}
	text, found := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:last] {
		if found {
			_, text, found = strings.Cut(text, part)
		}
	}
	return found && strings.HasSuffix(text, parts[last])
}
