// The mutate command measures how many small changes of the sources the tests notice. It makes
// mutants: each has one condition negated, one operand dropped, one comparison off by one, min
// and max or + and - swapped, or one assignment or call dropped. All mutants are compiled once,
// behind switches, and the tests run with one mutant at a time. Run it from the module's root:
//
//	go run ./internal/mutate -n 60 -seed 7                   # 60 mutants of all cores
//	go run ./internal/mutate -n 0 ./internal/core/region     # all mutants of one package
//	go run ./internal/mutate -only 'core.go Core.Step' -v    # those whose description has this
//	go run ./internal/mutate -own -short -seed $COMMIT       # only quick tests of the own package
//	go run ./internal/mutate -again FILE                     # those that survived in an earlier output
//	go run ./internal/mutate -list                           # describe, and play none
//
// A mutant is killed if a test fails with it, and a test that has no end with it has failed: one
// that uses far more processor time than without it, or one that waits, while the same tests
// without the mutant end in a third of the time.
// First come the tests of its own package that reach it, then, for those that survive, all tests
// of the cores and of the simulator that use its package, or of the packages of -users. With
// -own, only the tests of its own package count. equivalent.txt lists mutants that no
// test can notice, each with the reason; they are left out. The command exits with 1 if less
// than -min per cent of the others are killed.
package main

import (
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

func main() {
	var o options
	flag.IntVar(&o.n, "n", 60, "how many mutants to draw; 0 plays all")
	seed := flag.String("seed", "1", "seed of the draw: a number, or any text, such as the hash of a commit")
	flag.StringVar(&o.only, "only", "", "draw only mutants whose description contains this")
	again := flag.String("again", "", "play only the mutants that this output of the command names as not noticed")
	flag.BoolVar(&o.list, "list", false, "print the mutants, and play none")
	flag.BoolVar(&o.verbose, "v", false, "print killed mutants, too")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "how many test processes run at a time")
	flag.BoolVar(&o.own, "own", false, "run only the tests of the mutant's own package")
	flag.BoolVar(&o.short, "short", false, "run the tests with -short")
	flag.StringVar(&o.users, "users", "./internal/core/... ./internal/sim/...", "packages whose tests play what survives its own package, if they use it")
	flag.Float64Var(&o.min, "min", 95, "per cent that must be killed")
	flag.Parse()
	o.seed, o.patterns = seedOf(*seed), flag.Args()
	if len(o.patterns) == 0 {
		o.patterns = []string{"./internal/core/..."}
	}
	root, err := filepath.Abs(".")
	if err == nil && *again != "" {
		o.n = 0
		o.again, err = readSurvivors(*again)
	}
	if err == nil {
		err = runCommand(os.Stdout, root, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

type options struct {
	n             int
	seed          uint64
	only          string
	again         map[string]bool // nil for all
	list, verbose bool
	own, short    bool
	users         string
	jobs          int
	min           float64
	patterns      []string
}

// seedOf returns the seed that a text stands for: a number itself, any other text by its hash.
func seedOf(text string) uint64 {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

func runCommand(out io.Writer, root string, o options) error {
	packages, err := loadPackages(root, o.patterns)
	if err != nil {
		return err
	}
	equivalent, err := readEquivalent(filepath.Join(root, "internal/mutate/equivalent.txt"))
	if err != nil {
		return err
	}
	if err := equivalent.check(packages); err != nil {
		return err
	}
	drawn := drawMutants(packages, equivalent, o)
	if o.list {
		for _, m := range drawn {
			fmt.Fprintf(out, "%s (line %d)\n", m.siteKey(), m.line)
		}
		return nil
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	pl, err := newPlayer(root, tmp, packages, o)
	if err != nil {
		return err
	}
	t, err := playAll(out, pl, packages, drawn, o)
	if err != nil {
		return err
	}
	return t.printFigures(out, o.min)
}

// drawMutants returns the mutants to play, in the order of the sources.
func drawMutants(packages []*pkg, equivalent equivalents, o options) []*site {
	var all []*site
	for _, p := range packages {
		for _, m := range p.sites {
			if equivalent[m.siteKey()] == "" && strings.Contains(m.siteKey(), o.only) && (o.again == nil || o.again[m.siteKey()]) {
				all = append(all, m)
			}
		}
	}
	if o.n > 0 && o.n < len(all) {
		r := rand.New(rand.NewPCG(o.seed, 0))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.n]
		slices.SortFunc(all, func(a, b *site) int { return a.id - b.id })
	}
	return all
}

var survivorLine = regexp.MustCompile(`(?m)^(?:survives|is not reached) +(.*) \(line \d+\)$`)

// readSurvivors returns the keys of the mutants that an output of this command names as not noticed.
func readSurvivors(path string) (map[string]bool, error) {
	b, err := os.ReadFile(path)
	keys := map[string]bool{}
	for _, found := range survivorLine.FindAllSubmatch(b, -1) {
		keys[string(found[1])] = true
	}
	return keys, err
}

// tally counts what became of the mutants.
type tally struct {
	mu     sync.Mutex
	played map[string]int // by package
	killed map[string]int
}

// playAll plays the drawn mutants, package by package.
func playAll(out io.Writer, pl *player, packages []*pkg, drawn []*site, o options) (*tally, error) {
	t := &tally{played: map[string]int{}, killed: map[string]int{}}
	for _, p := range packages {
		own := slices.DeleteFunc(slices.Clone(drawn), func(m *site) bool { return m.pkg != p.path })
		if len(own) == 0 {
			continue
		}
		if err := t.playPackage(out, pl, p, own, o); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tally) playPackage(out io.Writer, pl *player, p *pkg, own []*site, o options) error {
	fmt.Fprintf(out, "%s: %d mutants\n", p.dir, len(own))
	t.played[p.dir] = len(own)
	s, err := pl.suiteOf(p.path)
	if err != nil {
		return err
	}
	if s != nil {
		if err := pl.recordTests(s); err != nil {
			return err
		}
	}
	var survivors []*site
	err = forEach(pl.jobs, own, func(_ int, m *site) error {
		killer := ""
		if s != nil {
			var err error
			if killer, err = pl.killedBy(s, m); err != nil {
				return err
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if killer == "" {
			survivors = append(survivors, m)
		}
		t.countKilled(out, p, m, killer, o.verbose)
		return nil
	})
	if err != nil || len(survivors) == 0 {
		return err
	}
	return t.playDependents(out, pl, p, survivors, o)
}

// playDependents plays what has survived the tests of its own package with those of others.
func (t *tally) playDependents(out io.Writer, pl *player, p *pkg, survivors []*site, o options) error {
	var users []string
	if !o.own {
		var err error
		if users, err = dependents(pl.root, p, strings.Fields(o.users)); err != nil {
			return err
		}
	}
	var suites []*suite
	for _, path := range users {
		s, err := pl.suiteOf(path)
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		if s.tests == nil {
			if err := pl.recordTests(s); err != nil {
				return err
			}
		}
		suites = append(suites, s)
	}
	slices.SortFunc(survivors, func(a, b *site) int { return a.id - b.id })
	return forEach(pl.jobs, survivors, func(_ int, m *site) error {
		reached := false
		for _, s := range append(suites, pl.suites[p.path]) {
			reached = reached || s.reaches(m)
		}
		for _, s := range suites {
			killer, err := pl.killedBy(s, m)
			if err != nil {
				return err
			}
			if killer != "" {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.countKilled(out, p, m, killer+" of "+strings.TrimPrefix(s.path, modulePath+"/"), o.verbose)
				return nil
			}
		}
		how := "survives"
		if !reached {
			how = "is not reached"
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		fmt.Fprintf(out, "%-14s %s (line %d)\n", how, m.siteKey(), m.line)
		return nil
	})
}

func (t *tally) countKilled(out io.Writer, p *pkg, m *site, killer string, verbose bool) {
	if killer == "" {
		return
	}
	t.killed[p.dir]++
	if verbose {
		fmt.Fprintf(out, "%-14s %s (line %d): %s\n", "killed", m.siteKey(), m.line, killer)
	}
}

// printFigures prints the figures of all packages, and returns an error if they are too low.
func (t *tally) printFigures(out io.Writer, least float64) error {
	var dirs []string
	played, killed := 0, 0
	for dir := range t.played {
		dirs = append(dirs, dir)
		played, killed = played+t.played[dir], killed+t.killed[dir]
	}
	slices.Sort(dirs)
	fmt.Fprintln(out)
	for _, dir := range append(dirs, "all") {
		p, k := t.played[dir], t.killed[dir]
		if dir == "all" {
			p, k = played, killed
		}
		fmt.Fprintf(out, "%-28s %5d mutants, %5d killed, %5.1f %%\n", dir, p, k, percent(k, p))
	}
	if played == 0 {
		return fmt.Errorf("no mutants to play")
	}
	if percent(killed, played) < least {
		return fmt.Errorf("%.1f %% of the mutants are killed, want %.0f", percent(killed, played), least)
	}
	return nil
}

func percent(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}
