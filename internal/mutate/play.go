package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/internal/mutate/switches"
)

// memoryLimit bounds a test process, in KiB: a mutant may allocate without an end.
const memoryLimit = 8 << 20

// soon is how much processor time the first tests of a mutant take together.
const soon = time.Second

// A test process with a mutant may use cpuBase of processor time, and ten times what its tests
// use without. So a mutant that never ends is found also on a machine that is busy with other
// work. A process that waits for something that never happens is stopped after wallBase, and ten
// times what its tests take without a mutant. Then the same tests run without the mutant: only if
// these need less than a third of that time, the mutant had no end. Otherwise the machine is slow,
// and the mutant runs again with wallSlow, and ten times what this run took.
const (
	cpuBase  = 3 * time.Second
	wallBase = 5 * time.Second
	wallSlow = time.Minute
)

// noFailFile keeps tests with package rapid from writing files when they fail, as they do with
// most mutants. Other tests do not accept it.
const noFailFile = "-rapid.nofailfile"

// suite is the compiled tests of one package.
type suite struct {
	path, dir, binary string
	flags             []string // of all its runs
	tests             []*testCase
}

// testCase is one test function.
type testCase struct {
	name    string
	took    cost
	reaches map[int]bool
}

// cost is the time that tests take without a mutant.
type cost struct{ cpu, wall time.Duration }

func (c *cost) addCost(d cost) { c.cpu, c.wall = c.cpu+d.cpu, c.wall+d.wall }

// player compiles and runs the tests.
type player struct {
	root, tmp string
	overlay   string
	jobs      int
	short     bool

	mu     sync.Mutex
	suites map[string]*suite
}

// newPlayer writes the rewritten sources into tmp.
func newPlayer(root, tmp string, packages []*pkg, o options) (*player, error) {
	replace := map[string]string{}
	for _, p := range packages {
		for at, text := range p.sources {
			to := filepath.Join(tmp, strconv.Itoa(len(replace))+".go")
			if err := os.WriteFile(to, text, 0o600); err != nil {
				return nil, err
			}
			replace[at] = to
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	overlay := filepath.Join(tmp, "overlay.json")
	return &player{root: root, tmp: tmp, overlay: overlay, jobs: o.jobs, short: o.short, suites: map[string]*suite{}}, os.WriteFile(overlay, b, 0o600)
}

// suiteOf compiles the tests of a package, once. It returns nil if the package has none.
func (pl *player) suiteOf(path string) (*suite, error) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if s, ok := pl.suites[path]; ok {
		return s, nil
	}
	dir := strings.TrimPrefix(path, modulePath+"/")
	s := &suite{path: path, dir: filepath.Join(pl.root, dir), binary: filepath.Join(pl.tmp, strings.ReplaceAll(dir, "/", "_")+".test")}
	cmd := exec.Command("go", "test", "-c", "-tags", tags, "-overlay", pl.overlay, "-o", s.binary, path)
	cmd.Dir = pl.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s does not compile with its switches: %w\n%s", path, err, out)
	}
	if _, err := os.Stat(s.binary); err != nil {
		s = nil
	} else if err := exec.Command(s.binary, noFailFile, "-test.run", "^$").Run(); err == nil {
		s.flags = append(s.flags, noFailFile)
	}
	pl.suites[path] = s
	return s, nil
}

// recordTests runs each test alone, and notes its time and the switches that it reaches.
func (pl *player) recordTests(s *suite) error {
	out, _, err := pl.runTests(context.Background(), s, 0, nil, "-test.list", ".")
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", s.path, err, out)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz") {
			s.tests = append(s.tests, &testCase{name: name})
		}
	}
	err = forEach(pl.jobs, s.tests, func(i int, t *testCase) error {
		file := fmt.Sprintf("%s.%d.reached", s.binary, i)
		began := time.Now()
		out, used, err := pl.runTests(context.Background(), s, 0, []string{switches.EnvReached + "=" + file}, "-test.run", exactly(t.name))
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", t.name, err, out)
		}
		t.took = cost{used, time.Since(began)}
		t.reaches, err = readNumbers(file)
		return err
	})
	slices.SortStableFunc(s.tests, func(a, b *testCase) int { return cmp.Compare(a.took.cpu, b.took.cpu) })
	return err
}

func readNumbers(file string) (map[int]bool, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	numbers := map[int]bool{}
	for f := range strings.FieldsSeq(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		numbers[n] = true
	}
	return numbers, err
}

func exactly(names ...string) string { return "^(" + strings.Join(names, "|") + ")$" }

// runTests runs the tests of a suite, with a bound of its memory and, if cpu is not 0, of its
// processor time. It returns what they print, and the processor time that they used.
func (pl *player) runTests(ctx context.Context, s *suite, cpu time.Duration, env []string, args ...string) ([]byte, time.Duration, error) {
	script := fmt.Sprintf(`ulimit -v %d; exec "$@"`, memoryLimit)
	if cpu > 0 {
		script = fmt.Sprintf("ulimit -t %d; ", int(math.Ceil(cpu.Seconds()))) + script
	}
	command := append([]string{"-c", script, "sh", s.binary, "-test.timeout", "0"}, s.flags...)
	if pl.short {
		command = append(command, "-test.short")
	}
	cmd := exec.CommandContext(ctx, "sh", append(command, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1"), env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return out, 0, err
	}
	return out, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// reaches reports whether a test of the suite reaches a mutant.
func (s *suite) reaches(m *site) bool {
	return s != nil && slices.ContainsFunc(s.tests, func(t *testCase) bool { return t.reaches[m.id] })
}

// killedBy runs the tests of a package that reach a mutant, the quickest first, until one fails.
// It returns the name of that test, or "". Each test that is not quick runs alone, so that a
// mutant without an end uses the bound of one test, and not that of all.
func (pl *player) killedBy(s *suite, m *site) (string, error) {
	var quick []string
	var slow []*testCase
	var quickCost cost
	for _, t := range s.tests {
		if !t.reaches[m.id] {
			continue
		}
		if quickCost.cpu+t.took.cpu <= soon {
			quick = append(quick, t.name)
			quickCost.addCost(t.took)
		} else {
			slow = append(slow, t)
		}
	}
	killer, err := pl.firstFailure(s, m, quickCost, quick)
	for i := 0; i < len(slow) && killer == "" && err == nil; i++ {
		killer, err = pl.firstFailure(s, m, slow[i].took, []string{slow[i].name})
	}
	return killer, err
}

var failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// firstFailure runs tests while a mutant is on. A run that uses far more than usual counts as a
// failure: the mutant never ends.
func (pl *player) firstFailure(s *suite, m *site, usual cost, tests []string) (string, error) {
	if len(tests) == 0 {
		return "", nil
	}
	bound := wallBase + 10*usual.wall
	killer, waits, err := pl.runMutant(s, m, usual, bound, tests)
	if err != nil || !waits {
		return killer, err
	}
	began := time.Now()
	if out, _, err := pl.runTests(context.Background(), s, 0, nil, "-test.run", exactly(tests...)); err != nil {
		return "", fmt.Errorf("%s fails without a mutant: %w\n%s", s.path, err, out)
	}
	took := time.Since(began)
	if isSlowness(took, bound) {
		killer, waits, err = pl.runMutant(s, m, usual, wallSlow+10*took, tests)
	}
	if waits {
		killer = noEnd
	}
	return killer, err
}

// noEnd is the killer of a mutant that uses processor time without an end, or waits forever.
const noEnd = "no end"

// isSlowness reports whether a run that did not end within the bound may only have been slow, as
// the same tests without a mutant took this long.
func isSlowness(took, bound time.Duration) bool { return took >= bound/3 }

// runMutant runs tests once while a mutant is on, and returns the test that fails. It returns true
// if the run was stopped at the bound, though it had not used its processor time.
func (pl *player) runMutant(s *suite, m *site, usual cost, bound time.Duration, tests []string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	out, _, err := pl.runTests(ctx, s, cpuBase+10*usual.cpu, []string{switches.EnvMutant + "=" + strconv.Itoa(m.id)}, "-test.failfast", "-test.run", exactly(tests...))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", false, nil
	case ctx.Err() != nil:
		return "", true, nil
	case !errors.As(err, &exit):
		return "", false, err
	case exit.Sys().(syscall.WaitStatus).Signaled():
		return noEnd, false, nil
	}
	if f := failLine.FindSubmatch(out); f != nil {
		return string(f[1]), false, nil
	}
	if bytes.Contains(out, []byte("panic")) || bytes.Contains(out, []byte("fatal error")) {
		return "a panic", false, nil
	}
	return "", false, fmt.Errorf("%s ends with %w:\n%s", s.path, err, out)
}

// forEach calls do for all items, some at a time, and returns the first error.
func forEach[T any](jobs int, items []T, do func(i int, item T) error) error {
	var wg sync.WaitGroup
	next := make(chan int)
	errs := make(chan error, len(items))
	for range max(jobs, 1) {
		wg.Go(func() {
			for i := range next {
				errs <- do(i, items[i])
			}
		})
	}
	for i := range items {
		next <- i
	}
	close(next)
	wg.Wait()
	close(errs)
	var first error
	for err := range errs {
		if first == nil {
			first = err
		}
	}
	return first
}
