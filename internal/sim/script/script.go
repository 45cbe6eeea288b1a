// Package script writes a run of the simulator down as text: its seed, its configuration in place
// of the one that the seed draws, and the faults that strike. A script plays the same run when the
// seed would draw another one.
package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/seed"
)

// Script is a run that is written down.
type Script struct {
	// Comment is the text of the first lines.
	Comment string
	Seed    uint64
	Config  seed.Config
	// ViewsOnly leaves the replicator and sharding out.
	ViewsOnly bool
	// Faults are those that strike; nil means all that the seed draws.
	Faults []Fault
}

// Fault is one that strikes. Its number counts the faults of the run; the time and the kind are
// for readers.
type Fault struct {
	Number int
	At     time.Duration
	Kind   string
}

// String writes the script. Settings that are zero are left out.
func (s *Script) String() string {
	var b strings.Builder
	for line := range strings.Lines(s.Comment) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
	}
	fmt.Fprintf(&b, "seed %d\n", s.Seed)
	if s.ViewsOnly {
		b.WriteString("views only\n")
	}
	v := reflect.ValueOf(s.Config)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			fmt.Fprintf(&b, "%s %s\n", v.Type().Field(i).Name, formatValue(v.Field(i).Interface()))
		}
	}
	if s.Faults == nil {
		b.WriteString("faults all\n")
	} else {
		b.WriteString("faults listed\n")
	}
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "fault %d %v %s\n", f.Number, f.At, f.Kind)
	}
	return b.String()
}

func formatValue(value any) string {
	switch x := value.(type) {
	case gossip.StaticQuorum:
		return fmt.Sprintf("static quorum %d", x.N)
	case gossip.KeepOldest:
		return "keep oldest"
	case gossip.AssumeCrash:
		return "assume crash " + x.After.String()
	case time.Duration, seed.Ending, seed.Aim:
		return fmt.Sprint(x)
	}
	if reflect.TypeOf(value).Kind() == reflect.Slice {
		b, err := json.Marshal(value)
		if err != nil {
			panic(err) // slices of numbers, strings and plain structs
		}
		return string(b)
	}
	if v := reflect.ValueOf(value); v.CanUint() {
		return strconv.FormatUint(v.Uint(), 10)
	}
	return fmt.Sprint(value)
}

// Parse reads a script.
func Parse(text string) (*Script, error) {
	s := &Script{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if comment, is := strings.CutPrefix(line, "#"); is {
			s.Comment += strings.TrimSpace(comment) + "\n"
			continue
		}
		if line == "" {
			continue
		}
		if err := s.parseLine(line); err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", i+1, line, err)
		}
	}
	c := &s.Config
	if c.Nodes < 1 || len(c.Types) == 0 || len(c.Roles) == 0 || len(c.HostRoles) != c.Nodes {
		return nil, errors.New("a script needs Nodes, Types, Roles, and HostRoles for each node")
	}
	return s, nil
}

func (s *Script) parseLine(line string) error {
	name, rest, _ := strings.Cut(line, " ")
	switch {
	case name == "seed":
		n, err := strconv.ParseUint(rest, 10, 64)
		s.Seed = n
		return err
	case line == "views only":
		s.ViewsOnly = true
		return nil
	case line == "faults all":
		return nil
	case line == "faults listed":
		s.Faults = []Fault{}
		return nil
	case name == "fault":
		return s.parseFault(rest)
	}
	field := reflect.ValueOf(&s.Config).Elem().FieldByName(name)
	if !field.IsValid() {
		return errors.New("no such setting")
	}
	return parseValue(field, rest)
}

func (s *Script) parseFault(text string) error {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		return errors.New("a fault has a number, a time and a kind")
	}
	n, err := strconv.Atoi(words[0])
	at, err2 := time.ParseDuration(words[1])
	s.Faults = append(s.Faults, Fault{n, at, words[2]})
	return errors.Join(err, err2)
}

// parseValue sets a field of the configuration.
func parseValue(field reflect.Value, text string) error {
	var value any
	var err error
	switch field.Interface().(type) {
	case time.Duration:
		value, err = time.ParseDuration(text)
	case seed.Ending:
		value, err = findName([]seed.Ending{seed.EndQuorum, seed.EndSurvivor, seed.EndAll}, text)
	case seed.Aim:
		value, err = findName([]seed.Aim{seed.AimNone, seed.AimRaise, seed.AimRemoval}, text)
	default:
		if field.Kind() != reflect.Interface {
			return json.Unmarshal([]byte(text), field.Addr().Interface())
		}
		value, err = parsePolicy(text)
	}
	if err == nil {
		field.Set(reflect.ValueOf(value))
	}
	return err
}

// findName returns the value with a name.
func findName[T fmt.Stringer](values []T, name string) (T, error) {
	i := slices.IndexFunc(values, func(v T) bool { return v.String() == name })
	if i < 0 {
		return values[0], fmt.Errorf("none of %v", values)
	}
	return values[i], nil
}

func parsePolicy(text string) (gossip.Policy, error) {
	if text == "keep oldest" {
		return gossip.KeepOldest{}, nil
	}
	if n, is := strings.CutPrefix(text, "static quorum "); is {
		votes, err := strconv.Atoi(n)
		return gossip.StaticQuorum{N: votes}, err
	}
	if d, is := strings.CutPrefix(text, "assume crash "); is {
		after, err := time.ParseDuration(d)
		return gossip.AssumeCrash{After: after}, err
	}
	return nil, errors.New("no such partition policy")
}
