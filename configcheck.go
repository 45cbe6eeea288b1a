package peerage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/replicator"
)

// Problem is one invalid setting.
type Problem struct {
	// Setting is the field of Config.
	Setting string
	// Value is the configured value. Of a secret it is only the length.
	Value string
	// Why states the error and the valid values.
	Why string
}

func (p Problem) String() string { return fmt.Sprintf("%s = %s: %s", p.Setting, p.Value, p.Why) }

// ConfigError lists all invalid settings of a Config.
type ConfigError struct{ Problems []Problem }

func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return "peerage: bad settings: " + strings.Join(lines, "; ")
}

// Validate returns nil, or a *ConfigError that lists every invalid setting with its name,
// its value and the reason. It checks only the settings: it resolves no name and opens no
// file or socket.
func (c Config) Validate() error {
	c = c.withDefaults()
	all := append(problemsOf(c.membershipToCheck().Check), append(c.dataProblems(), c.nodeProblems()...)...)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b Problem) int { return strings.Compare(a.Setting, b.Setting) })
	return &ConfigError{all}
}

// problemsOf returns what check reports.
func problemsOf(check func(report func(setting, value, why string))) (out []Problem) {
	check(func(setting, value, why string) { out = append(out, Problem{setting, value, why}) })
	return out
}

// nodeProblems checks the settings that the membership does not have.
func (c *Config) nodeProblems() (out []Problem) {
	for _, x := range []struct {
		bad                 bool
		setting, value, why string
	}{
		{c.MinMembers < 0, "MinMembers", strconv.Itoa(c.MinMembers), "must not be negative"},
		{c.RememberedPerSecond < 0, "RememberedPerSecond", strconv.Itoa(c.RememberedPerSecond), "must not be negative"},
		{c.TLS != nil && c.CertificateFiles != nil, "CertificateFiles", "set", "TLS is set as well: choose one"},
		{c.LameDuck < 0, "LameDuck", c.LameDuck.String(), "must not be negative"},
	} {
		if x.bad {
			out = append(out, Problem{Setting: x.setting, Value: x.value, Why: x.why})
		}
	}
	return out
}

// dataProblems checks Data and DataDir.
func (c *Config) dataProblems() (out []Problem) {
	add := func(setting string, value any, why string) {
		out = append(out, Problem{Setting: setting, Value: fmt.Sprint(value), Why: why})
	}
	durable := false
	for role, d := range c.Data {
		name := "Data[" + strconv.Quote(role) + "]."
		if role != "" && role != AnyRole && !slices.Contains(c.Roles, role) {
			add(name[:len(name)-1], "set", "this node does not have the role, so it would not keep its data")
		}
		durable = durable || len(d.Durable) > 0
		for _, p := range d.Durable {
			if strings.HasPrefix(p, placement.StorePrefix) {
				add(name+"Durable", strconv.Quote(p), "the records of coordinators must not outlive the cluster")
			}
		}
		if d.Sync < 0 {
			add(name+"Sync", d.Sync, "must not be negative")
		}
		if d.Retain > 0 && d.Retain < replica.RetainMin {
			add(name+"Retain", d.Retain, "a sixteenth of it must suffice for all nodes to agree: at least "+replica.RetainMin.String())
		}
		for i, e := range d.Expire {
			switch {
			case e.After < 0:
				add(name+"Expire", e.After, "must not be negative; 0 excepts a prefix")
			case strings.HasPrefix(e.Prefix, placement.StorePrefix):
				add(name+"Expire", strconv.Quote(e.Prefix), "the records of coordinators must not expire")
			case slices.ContainsFunc(d.Expire[:i], func(o replicator.Expiry) bool { return o.Prefix == e.Prefix }):
				add(name+"Expire", strconv.Quote(e.Prefix), "named twice")
			}
		}
	}
	if durable && c.DataDir == "" {
		add("DataDir", `""`, "durable keys need a directory")
	}
	if durable && c.Name == "" {
		add("Name", `""`, "a node with durable keys needs a name that survives restarts: its files belong to it")
	}
	return out
}
