package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// equivalents has the reasons why no test can notice a mutant, by keys of sites.
type equivalents map[string]string

// readEquivalent reads lines "key | reason". Empty lines and those with # are comments.
func readEquivalent(path string) (equivalents, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := equivalents{}
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line := strings.TrimSpace(scan.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndex(line, " | ")
		if i < 0 || strings.TrimSpace(line[i+3:]) == "" {
			return nil, fmt.Errorf("%s: no reason in %q", path, line)
		}
		key := strings.TrimSpace(line[:i])
		if all[key] != "" {
			return nil, fmt.Errorf("%s: %q stands twice", path, key)
		}
		all[key] = strings.TrimSpace(line[i+3:])
	}
	return all, scan.Err()
}

// check returns an error for an entry that matches no site of the packages it is about.
func (e equivalents) check(packages []*pkg) error {
	for _, p := range packages {
		keys := map[string]bool{}
		for _, m := range p.sites {
			keys[m.siteKey()] = true
		}
		for key := range e {
			file, _, _ := strings.Cut(key, " ")
			if i := strings.LastIndex(file, "/"); i >= 0 && file[:i] == p.dir && !keys[key] {
				return fmt.Errorf("equivalent.txt names %q, which is not in the sources", key)
			}
		}
	}
	return nil
}
