package peerage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/peerage-go/peerage/internal/membership"
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
	all := slices.Concat(membershipProblems(c.membershipToCheck().Validate()), c.dataProblems(), c.nodeProblems())
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b Problem) int { return strings.Compare(a.Setting, b.Setting) })
	return &ConfigError{all}
}

// nodeProblems checks the settings that package gossip does not have.
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

// fieldNames replaces the names of fields of gossip.Config by those of Config.
var fieldNames = strings.NewReplacer("ContactPoints", "Join", "ContactFunc", "JoinFunc", "Certificates", "CertificateFiles")

// membershipProblems returns the problems of a *gossip.ConfigError under the names of
// Config's fields.
func membershipProblems(err error) (out []Problem) {
	var e *membership.ConfigError
	if !errors.As(err, &e) {
		return nil
	}
	for _, p := range e.Problems {
		out = append(out, Problem{Setting: fieldNames.Replace(p.Setting), Value: p.Value, Why: fieldNames.Replace(p.Why)})
	}
	return out
}
