package main

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/peerage-go/peerage/cmd/peerage/internal/settings"
	"github.com/peerage-go/peerage/internal/harness/terminal"
)

// program is one call of the command.
type program struct {
	args           []string
	stdout, stderr io.Writer
	json           bool
	// config is the file of settings, configurable are the names of all flags that it may
	// set, of this command or of others.
	config       string
	configurable map[string]bool
}

// text is where a command writes for people: to standard error if standard output has JSON.
func (p *program) text() io.Writer {
	if p.json {
		return p.stderr
	}
	return p.stdout
}

// quietMost is how long a command that works may be silent: less than the 5 s after which
// people wonder.
const quietMost = 4 * time.Second

// progress is where a long run writes for people: it is never silent for long. Stop ends that.
func (p *program) progress() *terminal.Pulse { return terminal.NewPulse(p.text(), quietMost) }

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

// addSettings lets a file and environment variables set the flags of a command, which are all
// defined. Those named hold paths.
func (p *program) addSettings(cmd *cobra.Command, paths ...string) {
	settings.MarkPaths(cmd.Flags(), paths...)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { p.configurable[f.Name] = true })
	cmd.Flags().StringVar(&p.config, "config", os.Getenv(settings.Variable("config")),
		"YAML `file` with these settings, or set variables: PEERAGE_TLS_CERT for --tls-cert; a flag wins over both, a variable over the file")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return usageError(settings.Load(cmd.Flags(), p.config, os.LookupEnv, func(name string) bool { return p.configurable[name] }))
	}
}
