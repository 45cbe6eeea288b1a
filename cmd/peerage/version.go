package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
)

// build describes this program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version and the commit of this program", Args: noArguments,
		Long: "Prints the version of Peerage, the commit that this program was built from, and the\nGo version and platform.",
		RunE: func(*cobra.Command, []string) error { return p.printVersion() },
	}
}

func (p *program) printVersion() error {
	info, _ := debug.ReadBuildInfo()
	b := build{Version: peerage.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b.Commit, b.Modified = harness.Commit(info); p.json {
		return p.printJSON(b)
	}
	fmt.Fprintf(p.stdout, "peerage %s (%s) %s %s\n", b.Version, buildCommit(info), b.Go, b.Platform)
	return nil
}

// buildCommit describes the commit that info was built from. The go command records none
// for go run, for test binaries, and outside a repository.
func buildCommit(info *debug.BuildInfo) string {
	commit, modified := harness.Commit(info)
	switch {
	case commit == "":
		return "commit not recorded"
	case modified:
		return "commit " + commit + ", with uncommitted changes"
	}
	return "commit " + commit
}
