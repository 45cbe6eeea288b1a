package service

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Spec describes a service, as its file does.
type Spec struct {
	Name string `yaml:"name" json:"name"`
	// Command is the program with its arguments. {name}, {listen}, {http}, {join} and {dir}
	// stand for the name of a process, its addresses, those of all, and its directory.
	Command []string `yaml:"command" json:"command"`
	// Ready is the path that answers with 200 when a process is ready.
	Ready string `yaml:"ready" json:"ready"`
	// Keeps is what the service keeps of an acknowledged change, of the constants below.
	Keeps string `yaml:"keeps" json:"keeps"`
	// Copies is how many processes keep each value, for KeepsCopies.
	Copies int `yaml:"copies" json:"copies,omitempty"`
	// Counter or Register is how the service is asked; a Spec has one of them.
	Counter  *Counter  `yaml:"counter" json:"counter,omitempty"`
	Register *Register `yaml:"register" json:"register,omitempty"`
	// File is where the Spec was read, as named.
	File string `yaml:"-" json:"file"`
}

// Counter is an endpoint that raises a count by one, and answers with the new count.
type Counter struct {
	Keys int `yaml:"keys" json:"keys"`
	// Add is a method and a path, in which {key} stands for the key, as in Body.
	Add  string `yaml:"add" json:"add"`
	Body string `yaml:"body" json:"body,omitempty"`
	// Value is where the count stands in the JSON of the answer, with dots; "" is the whole.
	Value string `yaml:"value" json:"value,omitempty"`
}

// Register is a pair of endpoints that write a number and read the last one.
type Register struct {
	Keys int `yaml:"keys" json:"keys"`
	// Write and Read are methods and paths. {value} stands for the number to write.
	Write string `yaml:"write" json:"write"`
	Body  string `yaml:"body" json:"body,omitempty"`
	Read  string `yaml:"read" json:"read"`
	// Value is where the number stands in the JSON of the answer to Read.
	Value string `yaml:"value" json:"value,omitempty"`
}

// What a service keeps of acknowledged changes.
const (
	// KeepsMemory: they end with the process that has them in memory.
	KeepsMemory = "memory"
	// KeepsCopies: they outlive faults of less than half of Copies processes.
	KeepsCopies = "copies"
	// KeepsDisk: they outlive all faults.
	KeepsDisk = "disk"
)

const (
	fileBytesMax = 1 << 20
	keysMax      = 1000
)

// Read reads a description from a file of YAML. A relative program with a slash is relative
// to the directory of the file.
func Read(file string) (*Spec, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(b) > fileBytesMax {
		return nil, fmt.Errorf("%s has more than %d bytes", file, fileBytesMax)
	}
	s := &Spec{File: file}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if program := s.Command[0]; !filepath.IsAbs(program) && strings.ContainsRune(program, '/') {
		dir, err := filepath.Abs(filepath.Dir(file))
		if err != nil {
			return nil, err
		}
		s.Command[0] = filepath.Join(dir, program)
	}
	return s, nil
}

// validate reports all mistakes.
func (s *Spec) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(s.Name != "", "name is missing")
	check(len(s.Command) > 0 && s.Command[0] != "", "command is missing: name the program and its arguments")
	check(strings.Contains(strings.Join(s.Command, " "), "{http}"), "command has no {http}: the address at which a process serves HTTP")
	check(strings.HasPrefix(s.Ready, "/"), "ready is %q: name the path that answers 200 when a process is ready", s.Ready)
	check(s.Keeps == KeepsMemory || s.Keeps == KeepsCopies || s.Keeps == KeepsDisk, "keeps is %q: choose %s, %s or %s", s.Keeps, KeepsMemory, KeepsCopies, KeepsDisk)
	check((s.Keeps == KeepsCopies) == (s.Copies > 0), "copies is %d: give a number with keeps: %s, and only then", s.Copies, KeepsCopies)
	check((s.Counter == nil) != (s.Register == nil), "describe a counter or a register")
	if s.Counter != nil {
		check(isEndpoint(s.Counter.Add), "counter.add is %q: write it like POST /votes/{key}", s.Counter.Add)
	}
	if s.Register != nil {
		check(isEndpoint(s.Register.Write), "register.write is %q: write it like PUT /values/{key}", s.Register.Write)
		check(isEndpoint(s.Register.Read), "register.read is %q: write it like GET /values/{key}", s.Register.Read)
		check(strings.Contains(s.Register.Write+s.Register.Body, "{value}"), "register.write and register.body have no {value}")
	}
	check(s.Keys() >= 1 && s.Keys() <= keysMax, "keys is %d: choose 1 to %d", s.Keys(), keysMax)
	return errors.Join(errs...)
}

// isEndpoint reports whether a text is a method and a path with a key.
func isEndpoint(text string) bool {
	method, path, ok := strings.Cut(text, " ")
	return ok && method != "" && strings.ToUpper(method) == method && strings.HasPrefix(path, "/") && strings.Contains(path, "{key}")
}

// Keys returns how many counters or registers are asked.
func (s *Spec) Keys() int {
	switch {
	case s.Counter != nil:
		return s.Counter.Keys
	case s.Register != nil:
		return s.Register.Keys
	}
	return 0
}
