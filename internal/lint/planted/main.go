// The planted command proves that the checks detect planted bugs. Each bug is a patch under
// testdata/planted of its package, which names the tests that must detect it. The command
// applies all patches to copies of the sources, in which a switch guards each of them, and
// runs those tests with `go test -overlay`. Run it from the module's root:
//
//	go run ./internal/lint/planted            # exit 1 if a bug is not caught
//	go run ./internal/lint/planted -list      # all bugs and the tests that catch them
//	go run ./internal/lint/planted -only core/view
//
// A bug that is not caught, a switch that is not reached, and a patch that no longer matches
// its source are failures.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	list := flag.Bool("list", false, "print all bugs, and play none")
	only := flag.String("only", "", "play only the bugs whose patch has this in its path")
	tags := flag.String("tags", "", "further build tags")
	flag.Parse()
	root, err := filepath.Abs(".")
	if err == nil {
		err = runCommand(os.Stdout, root, options{*list, *only, *tags})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}

type options struct {
	list       bool
	only, tags string
}

func runCommand(out io.Writer, root string, o options) error {
	patches, err := readPatches(root)
	if err != nil {
		return err
	}
	if len(patches) == 0 {
		return fmt.Errorf("no patches below %s: run it from the module's root", root)
	}
	if o.list {
		for _, p := range patches {
			fmt.Fprintf(out, "%s: %s\n\t%s\n\tbreaks %s, caught by %s\n", p.dir(), p.name, p.bug, strings.Join(p.breaks, ", "), joinCatchers(p.caughtBy))
		}
		return nil
	}
	sources, err := applyAll(root, patches)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "planted")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	overlay, err := writeOverlay(root, tmp, sources)
	if err != nil {
		return err
	}
	played := slices.DeleteFunc(slices.Clone(patches), func(p *patch) bool { return !strings.Contains(p.path, o.only) })
	return playAll(out, root, overlay, o.tags, patches, played)
}

func joinCatchers(all []catcher) string {
	var names []string
	for _, c := range all {
		names = append(names, c.String())
	}
	return strings.Join(names, ", ")
}
