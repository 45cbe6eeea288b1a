package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/printer"
	"go/types"
	"regexp"
	"strings"
	"time"
)

// settingsStructs are the structs of settings, in the order of the page.
var settingsStructs = []struct{ title, dir, name string }{
	{"peerage.Config", ".", "Config"},
	{"peerage.CertificateFiles", ".", "CertificateFiles"},
	{"peerage.Discovery", "gossip", "Discovery"},
	{"peerage.DataConfig", ".", "DataConfig"},
	{"replicator.Expiry", "replicator", "Expiry"},
	{"gossip.StaticQuorum", "gossip", "StaticQuorum"},
	{"gossip.AssumeCrash", "gossip", "AssumeCrash"},
	{"sharding.Type", "sharding", "Type"},
	{"sharding.Limits", "sharding", "Limits"},
	{"sharding.Supervision", "sharding", "Supervision"},
	{"sharding.Passivation", "sharding", "Passivation"},
	{"sharding.Replicated", "sharding", "Replicated"},
	{"sharding.ReliableConfig", "sharding", "ReliableConfig"},
	{"sharding.Singleton", "sharding", "Singleton"},
	{"sharding.Daemon", "sharding", "Daemon"},
	{"strategy.LeastShards", "sharding/strategy", "LeastShards"},
	{"strategy.Weighted", "sharding/strategy", "Weighted"},
	{"strategy.ConsistentHashing", "sharding/strategy", "ConsistentHashing"},
	{"strategy.External", "sharding/strategy", "External"},
	{"dashboard.Options", "dashboard", "Options"},
}

// settingsValues are the types whose constants are values of settings.
var settingsValues = []struct{ dir, name string }{
	{"gossip", "CrashEvidence"}, {"gossip", "ForeignPolicy"},
	{"sharding", "PanicAction"}, {"sharding", "Eviction"}, {"sharding", "StateMode"},
}

// setting is one field of a struct of settings, or one flag.
type setting struct {
	name, typ, doc string
	is             types.Type // nil for flags
}

// packageAt returns the package in a directory of the module.
func (m *module) packageAt(dir string) (*pack, error) {
	for _, p := range m.packages {
		if p.dir == dir {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no package in %s", dir)
}

// typeSpec returns the declaration of a type with its comment.
func (p *pack) typeSpec(name string) (*ast.TypeSpec, string, error) {
	for _, f := range p.files {
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == name {
					return s, cmp.Or(s.Doc, g.Doc).Text(), nil
				}
			}
		}
	}
	return nil, "", fmt.Errorf("package %s declares no type %s", p.dir, name)
}

// structSettings returns the exported fields of a struct of settings, and its comment.
func (m *module) structSettings(dir, name string) ([]setting, string, error) {
	p, err := m.packageAt(dir)
	if err != nil {
		return nil, "", err
	}
	spec, doc, err := p.typeSpec(name)
	if err != nil {
		return nil, "", err
	}
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil, "", fmt.Errorf("%s is not a struct", name)
	}
	var out []setting
	for _, f := range body.Fields.List {
		for _, n := range f.Names {
			if n.IsExported() {
				out = append(out, setting{n.Name, m.source(f.Type), f.Doc.Text(), p.info.Types[f.Type].Type})
			}
		}
	}
	return out, doc, nil
}

// source returns an expression as it is written, on one line.
func (m *module) source(e ast.Expr) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, m.fset, e); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// valuesOf returns the constants of a type with their comments, in the order of the source.
func (m *module) valuesOf(dir, name string) ([]setting, error) {
	p, err := m.packageAt(dir)
	if err != nil {
		return nil, err
	}
	var out []setting
	for _, f := range p.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for _, id := range spec.Names {
				c, ok := p.info.Defs[id].(*types.Const)
				if !ok || !id.IsExported() {
					continue
				}
				if named, ok := c.Type().(*types.Named); ok && named.Obj().Name() == name && named.Obj().Pkg() == p.types {
					out = append(out, setting{name: p.types.Name() + "." + id.Name, typ: name, doc: spec.Doc.Text()})
				}
			}
			return true
		})
	}
	if len(out) < 2 {
		return nil, fmt.Errorf("type %s of %s has %d constants", name, dir, len(out))
	}
	return out, nil
}

var (
	defaultOf  = regexp.MustCompile(`(?s)\s*\bDefault:\s+(.*?)\.(?:\s|$)`)
	equalMark  = regexp.MustCompile(`\s*\(equal(?:, [^)]*)?\)`)
	boundWords = regexp.MustCompile(`\b[Aa]t (?:most|least)\b|\blonger than\b|\bmust (?:be|exceed|exist)\b|\bnegative\b|\brequired\b|\bin 0 to\b|\bto 64 bytes\b`)
	sentenceAt = regexp.MustCompile(`\. ["A-Z]`)
)

// defaultText returns the default that a comment states, or the zero value of the type. A
// constant of the package that it names is followed by its value.
func (m *module) defaultText(p *pack, s setting) string {
	found := defaultOf.FindStringSubmatch(s.doc)
	if found == nil {
		return "`" + zeroOf(s.is) + "`"
	}
	text := strings.Join(strings.Fields(found[1]), " ")
	name, rest, _ := strings.Cut(text, " ")
	name, more := strings.CutSuffix(name, ";")
	c := m.constantAt(p, name)
	if c == nil {
		return text
	}
	shown := "`" + name + "`"
	if value := constantText(c); value != "" {
		shown = value + " (" + shown + ")"
	}
	if more {
		shown += ";"
	}
	return strings.TrimSpace(shown + " " + rest)
}

// constantAt returns the constant that package p calls name, nil if there is none.
func (m *module) constantAt(p *pack, name string) *types.Const {
	if qualifier, of, qualified := strings.Cut(name, "."); qualified {
		for _, q := range m.packages {
			if q.public() && q.types.Name() == qualifier {
				p, name = q, of
			}
		}
	}
	c, _ := p.types.Scope().Lookup(name).(*types.Const)
	return c
}

// constantText returns the value of a number or a duration, as people write it, and nothing of
// other constants, whose name is enough.
func constantText(c *types.Const) string {
	switch c.Type().String() {
	case "time.Duration":
		n, _ := constant.Int64Val(c.Val())
		return durationText(time.Duration(n))
	case "untyped int":
		return c.Val().String()
	}
	return ""
}

func durationText(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d != 0 && d%u.of == 0 {
			return fmt.Sprint(int64(d/u.of), " ", u.name)
		}
	}
	return d.String()
}

// zeroOf returns the zero value of a type as it is written.
func zeroOf(t types.Type) string {
	b, ok := t.Underlying().(*types.Basic)
	switch {
	case !ok:
		return "nil"
	case b.Info()&types.IsBoolean != 0:
		return "false"
	case b.Info()&types.IsString != 0:
		return `""`
	}
	return "0"
}

// unitOf returns the unit of a setting by its type and its name.
func unitOf(s setting) string {
	switch {
	case s.typ == "time.Duration":
		return "time"
	case strings.HasSuffix(s.name, "Bytes"):
		return "bytes"
	case strings.HasSuffix(s.name, "PPM"):
		return "parts per million"
	case strings.HasSuffix(s.name, "PerSecond"):
		return "per second"
	case s.typ == "float64":
		return "ratio"
	}
	if b, ok := s.is.(*types.Basic); ok && b.Info()&types.IsInteger != 0 {
		return "number"
	}
	return ""
}

// boundsOf returns the sentences of a comment that bound a setting, after the first one.
func boundsOf(s setting) []string {
	var out []string
	if equalMark.MatchString(s.doc) {
		out = append(out, "Equal on all nodes.")
	}
	for _, line := range sentencesOf(s.doc)[1:] {
		if boundWords.MatchString(line) && len(line) < 160 {
			out = append(out, line)
		}
	}
	return out
}

// meaningOf returns the first sentence of a comment.
func meaningOf(s setting) string { return sentencesOf(s.doc)[0] }

// sentencesOf returns the sentences of a comment, without its default and marks; at least one.
func sentencesOf(doc string) []string {
	doc = equalMark.ReplaceAllString(defaultOf.ReplaceAllString(doc, " "), "")
	var out []string
	for _, paragraph := range strings.Split(doc, "\n\n") {
		if strings.HasPrefix(paragraph, "\t") || strings.HasPrefix(paragraph, " -") {
			continue
		}
		text := strings.Join(strings.Fields(paragraph), " ")
		for text != "" {
			end := len(text)
			if at := sentenceAt.FindStringIndex(text); at != nil {
				end = at[0] + 1
			}
			out = append(out, text[:end])
			text = strings.TrimSpace(text[end:])
		}
	}
	return append(out, "")[:max(len(out), 1)]
}
