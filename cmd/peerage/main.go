// Command peerage runs nodes of a Peerage cluster and shows what they do.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness"
)

const usage = `usage: peerage <command> [flags]

  demo      start five node processes, kill four, show that the last takes over
  node      run one node as a server with an HTTP API
  status    print the state of a node and its cluster
  drain     hand a node's shards over, and take it out of its cluster
  bench     measure messages, memory, failover and placement beside raw limits
  chaos     kill, pause, drain and restart node processes, and check their records
  sim       run seeds of the simulator
  version   print the version and the commit of this program

--help after a command describes its flags.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	commands := map[string]func(args []string, stdout, stderr io.Writer) int{
		"demo": runDemo, "node": runNode, "status": showStatus, "chaos": runChaos, "bench": runBench, "drain": drainNode, "sim": simulate,
		"version": printVersion,
	}
	switch args[0] {
	case "help", "--help", "-h":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	cmd, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "peerage: there is no command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	return cmd(args[1:], stdout, stderr)
}

// printVersion prints the version of the module and the commit that this program was built from.
func printVersion(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		fmt.Fprintf(stderr, "usage: peerage version\n\nPrints the version of Peerage, the commit that this program was built from, and the\nGo version and platform.\n")
		if args[0] == "--help" || args[0] == "-h" {
			return exitOK
		}
		return exitUsage
	}
	info, _ := debug.ReadBuildInfo()
	fmt.Fprintf(stdout, "peerage %s (%s) %s %s/%s\n", peerage.Version, buildCommit(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
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
