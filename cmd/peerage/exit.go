package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of every command. exitTable and docs/COMMANDS.md describe them.
const (
	exitOK     = 0
	exitFailed = 1
	// exitUsage is also that of a run of chaos that proves nothing.
	exitUsage = 2
	// exitUnreachable is that of commands that found no node to ask.
	exitUnreachable = 3
)

// exitTable ends the help of every command.
const exitTable = `
Exit codes:
  0  done, or the verdict is PASS
  1  it failed, or the verdict is FAIL
  2  the command line or the settings are wrong, or the verdict is UNKNOWN
  3  no node answers
`

// exitError is an error with an exit code of its own. Without an err, the command has
// already written why.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError returns err with the exit code of a wrong command line.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitUsage, err: err}
}

// verdictError returns the error of a run that has written its verdict, nil if it passed.
func verdictError(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// oneLine returns the text of an error, with its lines joined.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

// argumentsBetween refuses fewer or more arguments than a command takes.
func argumentsBetween(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError(fmt.Errorf("%d arguments; use %s", len(args), strings.TrimSuffix(cmd.UseLine(), " [flags]")))
		}
		return nil
	}
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath()))
}
