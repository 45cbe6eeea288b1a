package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// exceptions are the values above their limits that are tolerated, by measure and subject.
type exceptions map[[2]string]int

const exceptionsHead = "# Tolerated values above the bounds: measure, subject, value. Lines may only go and\n" +
	"# values may only fall: go run ./internal/lint/house -shrink\n"

// readExceptions reads the file at path. A missing file holds no exceptions.
func readExceptions(path string) (exceptions, error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return exceptions{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := exceptions{}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if s.Text() == "" || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		f := strings.Split(s.Text(), "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: not three fields: %q", path, s.Text())
		}
		v, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all[[2]string{f[0], f[1]}] = v
	}
	return all, nil
}

// compareFigures returns a sentence for each value above its exception or its limit, and for each
// exception above today's value.
func (e exceptions) compareFigures(measures []*measure) []string {
	var broken []string
	seen := map[[2]string]bool{}
	for _, m := range measures {
		for _, it := range m.overBound() {
			k := [2]string{m.name, it.subject}
			seen[k] = true
			switch allowed := e[k]; {
			case allowed == 0 && m.met:
			case it.value > max(allowed, m.limitOf(it)):
				broken = append(broken, fmt.Sprintf("%s: %s has %d, at most %d%s", m.name, it.subject, it.value,
					max(allowed, m.limitOf(it)), hints(it)))
			case it.value < allowed:
				broken = append(broken, fmt.Sprintf("%s: %s has %d, its exception is %d: run with -shrink", m.name, it.subject, it.value, allowed))
			}
		}
	}
	for k, v := range e {
		if !seen[k] {
			broken = append(broken, fmt.Sprintf("%s: %s no longer needs its exception of %d: run with -shrink", k[0], k[1], v))
		}
	}
	slices.Sort(broken)
	return broken
}

func hints(it item) string {
	if len(it.where) == 0 {
		return ""
	}
	return ":\n\t" + strings.Join(it.where, "\n\t")
}

// shrunk returns the exceptions lowered to today's values. It neither adds nor raises one.
func (e exceptions) shrunk(measures []*measure) exceptions {
	out := exceptions{}
	for _, m := range measures {
		if m.met {
			continue
		}
		for _, it := range m.overBound() {
			k := [2]string{m.name, it.subject}
			if v := min(e[k], it.value); v > 0 {
				out[k] = v
			}
		}
	}
	return out
}

// writeFile replaces the file at path, sorted.
func (e exceptions) writeFile(path string) error {
	var lines []string
	for k, v := range e {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%d\n", k[0], k[1], v))
	}
	slices.Sort(lines)
	return os.WriteFile(path, []byte(exceptionsHead+strings.Join(lines, "")), 0o644)
}
