package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

const modulePath = "github.com/peerage-go/peerage/"

// caughtLine is what planted.MustCatch logs.
var caughtLine = regexp.MustCompile(`planted: caught "([^"]*)": (.*)`)

// report is one line of `go test -json`.
type report struct{ Action, Package, ImportPath, Test, Output string }

// results are what the tests have reported.
type results struct {
	caught map[catcher][]string // names of bugs
	failed []string
	broken bool // a package was not compiled
}

// playAll runs the tests of the patches and compares what they have caught with the headers.
func playAll(out io.Writer, root, overlay, tags string, all, played []*patch) error {
	packages, tests := catchers(played)
	args := []string{"test", "-json", "-overlay", overlay, "-tags", strings.Trim("planted,"+tags, ","),
		"-timeout", "30m", "-run", "^(" + strings.Join(tests, "|") + ")$"}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	got, err := readResults(out, stdout)
	if wait := cmd.Wait(); err == nil {
		err = wait
	}
	problems := got.failed
	if !got.broken {
		problems = append(problems, compareCaught(all, played, got)...)
	}
	for _, p := range problems {
		fmt.Fprintln(out, "FAIL", p)
	}
	if err == nil && len(problems) > 0 {
		err = errors.New("not all bugs were caught")
	}
	if err == nil {
		fmt.Fprintf(out, "all %d planted bugs were caught, by %d tests\n", len(played), len(got.caught))
	}
	return err
}

// readResults prints a line for each bug that was caught, and all output of failed tests.
func readResults(out io.Writer, from io.Reader) (results, error) {
	got := results{caught: map[catcher][]string{}}
	output := map[string][]string{} // by test
	scan := bufio.NewScanner(from)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var r report
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			continue // the toolchain's own text, which is on the standard error, too
		}
		pkg := strings.TrimPrefix(r.Package, modulePath)
		of := strings.TrimSpace(pkg + r.ImportPath + " " + r.Test)
		switch r.Action {
		case "output", "build-output":
			output[of] = append(output[of], r.Output)
		case "fail", "build-fail":
			fmt.Fprint(out, strings.Join(output[of], ""))
			got.failed = append(got.failed, of)
			got.broken = got.broken || r.Action == "build-fail"
		case "pass":
			top, _, _ := strings.Cut(r.Test, "/")
			for _, line := range output[of] {
				if m := caughtLine.FindStringSubmatch(line); m != nil {
					c := catcher{pkg, top}
					got.caught[c] = append(got.caught[c], m[1])
					fmt.Fprintf(out, "%s: %s: %s\n", c, m[1], m[2])
				}
			}
		}
	}
	return got, scan.Err()
}

// compareCaught returns the bugs that a test should have caught and did not, and those that it
// caught though no header names it.
func compareCaught(all, played []*patch, got results) []string {
	var problems []string
	expected := map[catcher][]string{}
	for _, p := range all {
		for _, c := range p.caughtBy {
			expected[c] = append(expected[c], p.name)
			if slices.Contains(played, p) && !slices.Contains(got.caught[c], p.name) {
				problems = append(problems, fmt.Sprintf("%s: not caught by %s", p.path, c))
			}
		}
	}
	for c, names := range got.caught {
		for _, name := range names {
			if !slices.Contains(expected[c], name) {
				problems = append(problems, fmt.Sprintf("%s catches %q, and the header of the patch does not name it", c, name))
			}
		}
	}
	slices.Sort(problems)
	return problems
}
