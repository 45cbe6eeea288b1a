package main

import (
	"encoding/json"
	"io"
	"slices"
)

// program is one call of the command.
type program struct {
	args           []string
	stdout, stderr io.Writer
	json           bool
}

// text is where a command writes for people: to standard error if standard output has JSON.
func (p *program) text() io.Writer {
	if p.json {
		return p.stderr
	}
	return p.stdout
}

// printJSON writes v to standard output.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// argsAfter returns the arguments behind the name of a command, those before it first.
func (p *program) argsAfter(command string) []string {
	at := slices.Index(p.args, command)
	return slices.Concat(p.args[:at], p.args[at+1:])
}
