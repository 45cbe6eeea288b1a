// Command peerage runs nodes of a Peerage cluster and shows what they do.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
)

const rootHelp = `Peerage is cluster sharding for Go without a database. This program runs nodes that host
counters, shows what a cluster does, and tests that it keeps its promises.

To begin:  peerage demo`

// helpWidth is the number of columns of help texts.
const helpWidth = 80

// helpFooter is part of the help of every command. Lines of flags end at column 80.
const helpFooter = `{{if .HasAvailableSubCommands}}
{{range $g := .Groups}}{{.Title}}
{{range $.Commands}}{{if and (eq .GroupID $g.ID) .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}
{{end}}Use "{{.CommandPath}} COMMAND --help" for more about a command.
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
Flags of every command:
{{.InheritedFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}
{{end}}` + exitTable

// The groups of commands in the help of the program.
const (
	groupStart = "start"
	groupLook  = "look"
	groupProve = "prove"
	groupOther = "other"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes a command line and returns the exit code. It writes an error as one line.
func run(args []string, stdout, stderr io.Writer) int {
	p := &program{args: args, stdout: stdout, stderr: stderr, configurable: map[string]bool{}}
	root := p.rootCommand()
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would take those of the process
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	if text := oneLine(err); text != "" {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), text)
	}
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		return exit.code
	}
	if cmd.ValidateFlagGroups() != nil { // cobra's error for flags that exclude each other
		return exitUsage
	}
	if unreachable := (*client.UnreachableError)(nil); errors.As(err, &unreachable) {
		return exitUnreachable
	}
	return exitFailed
}

// keepOrderOfCommands lets the help list commands as they were added. The setting belongs to the
// whole process, and tests run command lines side by side.
var keepOrderOfCommands = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "peerage", Short: "run, watch and test clusters of Peerage nodes", Long: rootHelp,
		SilenceUsage: true, SilenceErrors: true, SuggestionsMinimumDistance: 2, Args: noSuchCommand,
	}
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "Begin here:"},
		&cobra.Group{ID: groupLook, Title: "Look at a cluster, and operate it:"},
		&cobra.Group{ID: groupProve, Title: "Test and measure:"},
		&cobra.Group{ID: groupOther, Title: "Further commands:"},
	)
	version := root.Flags().Bool("version", false, "as peerage version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return p.printVersion()
		}
		fmt.Fprint(p.stderr, cmd.UsageString())
		return &exitError{code: exitUsage}
	}
	root.PersistentFlags().BoolVar(&p.json, "json", false, "print JSON, for programs; keys are in snake_case")
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", foldText(c.Long), c.UsageString())
	})
	root.SetUsageTemplate("Usage: {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND [flags]{{else}}{{.UseLine}}{{end}}\n" + helpFooter)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := err.Error()
		if number := new(strconv.NumError); errors.As(err, &number) {
			text = strings.Replace(text, number.Error(), number.Err.Error(), 1)
		}
		return usageError(fmt.Errorf("%s; see %s --help", text, cmd.CommandPath()))
	})
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	addGroup(root, groupStart, p.demoCommand(), p.nodeCommand(), p.certsCommand())
	addGroup(root, groupLook, p.statusCommand(), p.membersCommand(), p.typesCommand(), p.shardsCommand(), p.whereCommand(), p.explainCommand(),
		p.topCommand(), p.drainCommand(), p.placeCommand())
	addGroup(root, groupProve, p.chaosCommand(), p.reportCommand(), p.benchCommand(), p.simCommand())
	addGroup(root, groupOther, p.versionCommand())
	keepOrderOfCommands()
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.Short = "write a script that completes commands in a shell"
	}
	return root
}

// foldText wraps the paragraphs of a help text at helpWidth. Lines that begin with a space stay
// as they are.
func foldText(text string) string {
	var out []string
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if !strings.HasPrefix(paragraph, " ") {
			paragraph = ansi.Wordwrap(strings.ReplaceAll(paragraph, "\n", " "), helpWidth, "")
		}
		out = append(out, paragraph)
	}
	return strings.Join(out, "\n\n")
}

func addGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID, c.DisableFlagsInUseLine = group, false
		root.AddCommand(c)
	}
}

// noSuchCommand refuses what is no command, and names the nearest ones.
func noSuchCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see peerage --help"
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return usageError(fmt.Errorf("there is no command %q; %s", args[0], hint))
}
