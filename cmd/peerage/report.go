package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/page"
	"github.com/peerage-go/peerage/internal/harness/terminal"
)

const reportHelp = `Prints the report of an earlier run of chaos, and writes it as one page of HTML. FILE is
what chaos wrote with --out, in JSON, or with --report, as a page: both hold the whole report.

The page of report.json is report.html, unless --html names another file. The exit code is
that of the verdict.

Several files are the runs of a series, over the number of processes or of several services: it
prints the promises that a run did not keep, and the figures, and with --html also writes them as
a page. The exit code is that of the worst verdict.

With --against OLD it prints the figures of both runs instead, with the ratio of FILE's to
OLD's, and the settings in which they differ. In brackets are 95 % confidence intervals: two
that overlap show no difference.`

func (p *program) reportCommand() *cobra.Command {
	var html, against string
	var open bool
	cmd := &cobra.Command{
		Use: "report FILE...", Short: "show the report of an earlier run of chaos, or a series of runs", Long: reportHelp, Args: argumentsBetween(1, seriesMax),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1 && (against != "" || open):
				return usageError(errors.New("--against and --open take one report; several FILEs are a series"))
			case len(args) > 1:
				return p.showSeries(args, html)
			case against != "":
				return p.compareReports(args[0], against)
			}
			return p.showReport(args[0], html, open)
		},
	}
	cmd.Flags().StringVar(&html, "html", "", "`file` to write the page to (default: FILE with the ending .html)")
	cmd.Flags().BoolVar(&open, "open", false, "open the page in a browser")
	cmd.Flags().StringVar(&against, "against", "", "`file` with the report of another run, to compare with it")
	for _, other := range []string{"html", "open"} {
		cmd.MarkFlagsMutuallyExclusive("against", other)
	}
	return cmd
}

// seriesMax is how many reports a series has at most.
const seriesMax = 20

// showSeries prints the figures of several runs, and writes them as a page if html is set.
func (p *program) showSeries(files []string, html string) error {
	var reports []*chaos.Report
	for _, file := range files {
		r, err := page.Read(file)
		if err != nil {
			return usageError(err)
		}
		reports = append(reports, r)
	}
	s := chaos.NewSeries(reports)
	if html != "" {
		if err := page.SaveSeries(html, s); err != nil {
			return err
		}
		fmt.Fprintf(p.text(), "Series: %s\n\n", html)
	}
	if p.json {
		return errors.Join(p.printJSON(s), verdictError(chaosExitCode(s.Verdict())))
	}
	head, verdicts := []string{"figure"}, []string{"verdict"}
	for i := range s.Runs {
		head, verdicts = append(head, s.Runs[i].Label()), append(verdicts, s.Runs[i].Verdict)
	}
	rows := [][]string{head, verdicts}
	for _, promise := range s.Promises {
		if promise.IsKept() {
			continue
		}
		row := []string{promise.Name}
		for _, v := range promise.Verdicts {
			row = append(row, v.String())
		}
		rows = append(rows, row)
	}
	for _, f := range s.Figures {
		row := []string{f.Name}
		for _, value := range f.Values {
			row = append(row, comparedText(value, nil, f.Unit))
		}
		rows = append(rows, row)
	}
	printTable(p.stdout, "", rows)
	return verdictError(chaosExitCode(s.Verdict()))
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

// compareReports prints the figures of a run beside those of another one.
func (p *program) compareReports(file, against string) error {
	r, err := page.Read(file)
	if err != nil {
		return usageError(err)
	}
	old, err := page.Read(against)
	if err != nil {
		return usageError(err)
	}
	c := chaos.Compare(r, old)
	if p.json {
		return errors.Join(p.printJSON(c), verdictError(chaosExitCode(r.Verdict)))
	}
	rows := [][]string{{"figure", "old", "new", "ratio"}, {"verdict", old.Verdict, r.Verdict, "-"}}
	for _, f := range c.Figures {
		ratio := "-"
		if f.Ratio != nil {
			ratio = fmt.Sprintf("%.2f", *f.Ratio)
		}
		rows = append(rows, []string{f.Name, comparedText(f.Old, f.OldInterval, f.Unit), comparedText(f.New, f.NewInterval, f.Unit), ratio})
	}
	printTable(p.stdout, "", rows)
	for _, d := range c.Differ {
		fmt.Fprintf(p.stdout, "the runs differ in %s\n", d)
	}
	return verdictError(chaosExitCode(r.Verdict))
}

// comparedText formats a figure in its unit, with its confidence interval.
func comparedText(value *float64, interval *harness.Interval, unit string) string {
	if value == nil {
		return "-"
	}
	text := ""
	switch unit {
	case chaos.UnitPercent:
		text = fmt.Sprintf("%.1f %%", *value)
	case chaos.UnitBytes:
		text = humanize.IBytes(uint64(*value))
	case chaos.UnitRate:
		text = fmt.Sprintf("%.0f/s", *value)
	default:
		text = harness.FormatMillis(*value)
	}
	return text + harness.FormatInterval(interval)
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
