// The judge command reads the histories that `peerage chaos --keep DIR` keeps, and judges each
// promise of the run. It shares no code with the checker of chaos: its rules are written from
// GUARANTEES.md and docs/HISTORIES.md. Run it from the module's root:
//
//	go run ./internal/judge DIR
//
// It prints a line for each promise, PASS, FAIL or UNKNOWN, and below it the records that break
// it. If its verdicts differ from those in the report of the run, it prints that, too.
//
// It also writes the operations of counters and registers for checkers of other projects, in
// place of verdicts:
//
//	go run ./internal/judge -export edn DIR              # for Elle
//	go run ./internal/judge -export porcupine-json DIR   # for porcupine
//
// The exit code is 0 if all promises pass, 1 if one fails or if a verdict differs from that of
// the run, and 2 if one is unknown, or if the files cannot be read.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

const (
	exitPass    = 0
	exitFail    = 1
	exitUnknown = 2
)

func main() { os.Exit(runCommand(os.Args[1:], os.Stdout, os.Stderr)) }

func runCommand(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("judge", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: go run ./internal/judge [-export edn|porcupine-json] DIR")
		flags.PrintDefaults()
	}
	format := flags.String("export", "", "write the operations in this `format`, edn or porcupine-json, and print no verdicts")
	if err := flags.Parse(args); err != nil {
		return exitUnknown
	}
	if flags.NArg() != 1 || *format != "" && *format != formatEDN && *format != formatPorcupine {
		flags.Usage()
		return exitUnknown
	}
	code, err := judgeDirectory(stdout, flags.Arg(0), *format)
	if err != nil {
		fmt.Fprintln(stderr, "judge:", err)
		return exitUnknown
	}
	return code
}

// judgeDirectory judges the run whose histories are in a directory, and returns the exit code. A
// format asks for its operations instead.
func judgeDirectory(out io.Writer, dir, format string) (int, error) {
	src, err := openDirectory(dir)
	if err != nil {
		return 0, err
	}
	f, err := readFacts(dir)
	if err != nil {
		return 0, err
	}
	c := newCourt(f, src)
	if format != "" {
		c.export = &exporter{}
	}
	if err := c.judge(defaultLimits); err != nil {
		return 0, err
	}
	if format != "" {
		return exitPass, c.export.writeExport(out, format)
	}
	for _, p := range c.promises {
		p.printPromise(out, f)
	}
	v := worst(c.promises, f.overloaded())
	fmt.Fprintln(out, v)
	switch differ := c.printDifferences(out); {
	case v == fail || differ:
		return exitFail, nil
	case v == unknown:
		return exitUnknown, nil
	}
	return exitPass, nil
}

// printDifferences prints where the verdicts of the run are other ones, and reports whether
// there are any.
func (c *court) printDifferences(out io.Writer) bool {
	differ, same := false, 0
	for _, theirs := range c.facts.Verdicts {
		p := c.byName[theirs.Name]
		switch {
		case p == nil:
			fmt.Fprintf(out, "not judged here: %s\n", theirs.Name)
		case string(p.verdict(c.facts.overloaded())) != theirs.Verdict:
			differ = true
			fmt.Fprintf(out, "differs: %s is %s here, and %s in %s\n", p.name, p.verdict(c.facts.overloaded()), theirs.Verdict, factsFile)
		default:
			same++
		}
	}
	fmt.Fprintf(out, "%d of %d verdicts are those of the run itself\n", same, len(c.promises))
	return differ
}
