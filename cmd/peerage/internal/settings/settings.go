// Package settings fills the flags of a command from environment variables and from a file.
// A flag on the command line wins over its variable, and that over the file.
package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// pathAnnotation marks flags whose value is a path.
const pathAnnotation = "peerage_path"

// fileBytesMax bounds a file of settings.
const fileBytesMax = 1 << 20

// MarkPaths declares that the flags of these names hold paths: in a file of settings, they
// are relative to the directory of the file.
func MarkPaths(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, pathAnnotation, []string{"yes"}); err != nil {
			panic(err) // no such flag: a mistake in this program
		}
	}
}

// Variable returns the name of the environment variable of a flag: PEERAGE_TLS_CERT for
// tls-cert.
func Variable(flag string) string {
	return "PEERAGE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load sets every flag that is not set yet and has an environment variable or a key in the
// file. Lookup is os.LookupEnv. An empty path names no file. Known reports the flags that may
// be set so, of this command or of others: another key in the file is an error. Keys of other
// commands are skipped, so that a node and the commands that look at it can share one file.
func Load(flags *pflag.FlagSet, path string, lookup func(string) (string, bool), known func(name string) bool) error {
	fromFile, err := read(path)
	if err != nil {
		return err
	}
	var errs []error
	for name := range fromFile {
		if !known(name) {
			errs = append(errs, fmt.Errorf("%s: there is no setting %q; the settings are the flags that --help lists, without dashes", path, name))
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || !known(f.Name) {
			return
		}
		if v, ok := lookup(Variable(f.Name)); ok {
			errs = append(errs, fill(flags, f, []string{v}, Variable(f.Name)))
		} else if values, ok := fromFile[f.Name]; ok {
			errs = append(errs, fill(flags, f, resolve(f, values, path), path+": "+f.Name))
		}
	})
	return errors.Join(errs...)
}

func fill(flags *pflag.FlagSet, f *pflag.Flag, values []string, origin string) error {
	for _, v := range values {
		if err := flags.Set(f.Name, v); err != nil {
			return fmt.Errorf("%s is %q: %w", origin, v, errors.Unwrap(err))
		}
	}
	return nil
}

// resolve returns values, with paths relative to the directory of the file.
func resolve(f *pflag.Flag, values []string, file string) []string {
	if f.Annotations[pathAnnotation] == nil {
		return values
	}
	var out []string
	for _, v := range values {
		if v != "" && !filepath.IsAbs(v) {
			v = filepath.Join(filepath.Dir(file), v)
		}
		out = append(out, v)
	}
	return out
}

// read returns the values of each key: a scalar is one, a list may be several. Scalars keep
// their text: 1.10 is not 1.1.
func read(path string) (map[string][]string, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if info.Size() > fileBytesMax {
		return nil, fmt.Errorf("--config: %s has %d bytes, at most %d", path, info.Size(), fileBytesMax)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var doc map[string]yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s is not a list of settings like `name: a` in YAML: %w", path, err)
	}
	out := map[string][]string{}
	for key, node := range doc {
		values, err := scalars(&node)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, key, err)
		}
		out[key] = values
	}
	return out, nil
}

func scalars(n *yaml.Node) ([]string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		out := []string{}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a list holds values only", item.Line)
			}
			out = append(out, item.Value)
		}
		return out, nil
	}
	return nil, fmt.Errorf("line %d: choose a value or a list of values", n.Line)
}
