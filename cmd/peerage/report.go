package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/page"
	"github.com/peerage-go/peerage/internal/harness/terminal"
)

const reportHelp = `Prints the report of an earlier run of chaos, and writes it as one page of HTML. FILE is
what chaos wrote with --out, in JSON, or with --report, as a page: both hold the whole report.

The page of report.json is report.html, unless --html names another file. The exit code is
that of the verdict.`

func (p *program) reportCommand() *cobra.Command {
	var html string
	var open bool
	cmd := &cobra.Command{
		Use: "report FILE", Short: "show the report of an earlier run of chaos", Long: reportHelp, Args: argumentsBetween(1, 1),
		RunE: func(_ *cobra.Command, args []string) error { return p.showReport(args[0], html, open) },
	}
	cmd.Flags().StringVar(&html, "html", "", "`file` to write the page to (default: FILE with the ending .html)")
	cmd.Flags().BoolVar(&open, "open", false, "open the page in a browser")
	return cmd
}

func (p *program) showReport(file, html string, open bool) error {
	r, err := page.Read(file)
	if err != nil {
		return usageError(err)
	}
	if html == "" {
		html = strings.TrimSuffix(file, filepath.Ext(file)) + ".html"
	}
	p.printReport(r)
	if p.json {
		if err := p.printJSON(r); err != nil {
			return err
		}
	}
	if html != file {
		if err := page.Save(html, r); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.text(), "Report: %s\n", html)
	if open {
		if err := openInBrowser(html); err != nil {
			return fmt.Errorf("the page is %s, and no browser opened it: %w", html, err)
		}
	}
	return verdictError(chaosExitCode(r.Verdict))
}

// printReport prints a report, wrapped to the width of a terminal.
func (p *program) printReport(r *chaos.Report) {
	const indent = 11 // behind the verdict of a promise
	var b strings.Builder
	r.Print(&b)
	terminal.New(p.text()).Print(indent, b.String())
}

// openInBrowser opens a file with the program that the system has for it.
func openInBrowser(file string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", file).Run()
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", file).Run()
	}
	return exec.Command("xdg-open", file).Run()
}
