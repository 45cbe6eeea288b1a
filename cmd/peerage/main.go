// Command peerage runs nodes of a Peerage cluster and shows what they do.
package main

import (
	"fmt"
	"io"
	"os"
)

// Exit codes of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `usage: peerage <command> [flags]

  demo      start five node processes, kill four of them, show who takes over
  node      run one node as a server with an HTTP API
  status    print what a node knows about its cluster
  drain     hand over what a node hosts, and take it out of its cluster
  bench     measure messages, memory, failover and placement beside raw limits
  chaos     kill, hold, drain and restart node processes, and check what they did
  sim       run seeds of the simulator

Each command explains itself with --help.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	commands := map[string]func(args []string, stdout, stderr io.Writer) int{
		"demo": demo, "node": node, "status": status, "chaos": chaos, "bench": bench, "drain": drainNode, "sim": simulate,
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
