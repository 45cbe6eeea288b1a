// The house command measures the structure and the language of the module and compares
// each figure with its bound. Run it from the module's root:
//
//	go run ./internal/lint/house            # figures and bounds; exit 1 if one is broken
//	go run ./internal/lint/house -list      # every subject beyond its bound, too
//	go run ./internal/lint/house -shrink    # lower the exceptions to today's figures
//	go run ./internal/lint/house -api       # write docs/api.txt and docs/CONFIGURATION.md
//	go run ./internal/lint/house -sizes     # lines, files and functions of each floor, too
//
// A subject beyond its bound needs a line in exceptions.txt with exactly today's figure.
// A higher figure breaks the bound, and so does a lower one until -shrink has lowered the
// exception, so exceptions can only shrink. No flag adds or raises an exception.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	list := flag.Bool("list", false, "print every subject that is beyond its bound")
	shrink := flag.Bool("shrink", false, "lower the exceptions to today's figures")
	newAPI := flag.Bool("api", false, "write the exported API to "+apiFile+" and the settings to "+settingsFile)
	sizes := flag.Bool("sizes", false, "print the sizes of the floors of "+floorsPage)
	root := flag.String("root", ".", "the module's root")
	flag.Parse()
	ok, err := printFigures(os.Stdout, *root, options{*list, *shrink, *newAPI, *sizes})
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

type options struct{ list, shrink, api, sizes bool }

// printFigures measures the module at root, prints the table, and reports whether all bounds hold
// and the pages made from the code are those of today's code.
func printFigures(out io.Writer, root string, o options) (bool, error) {
	m, err := loadModule(root)
	if err != nil {
		return false, err
	}
	measures := append(structure(m), language(m)...)
	path := filepath.Join(root, "internal/lint/house/exceptions.txt")
	allowed, err := readExceptions(path)
	if err != nil {
		return false, err
	}
	if o.shrink {
		allowed = allowed.shrunk(measures)
		if err := allowed.writeFile(path); err != nil {
			return false, err
		}
	}
	broken := allowed.compareFigures(measures)
	if o.api {
		if err := os.WriteFile(filepath.Join(root, apiFile), []byte(api(m)), 0o644); err != nil {
			return false, err
		}
		if err := writeSettings(m); err != nil {
			return false, err
		}
	} else {
		broken = append(append(broken, checkAPI(m)...), checkSettings(m)...)
	}
	printTable(out, measures, o.list)
	if o.sizes {
		if err := printSizes(out, m); err != nil {
			return false, err
		}
	}
	for _, b := range broken {
		fmt.Fprintln(out, "broken:", b)
	}
	return len(broken) == 0, nil
}
