package main

import (
	"errors"
	"fmt"
	"go/doc/comment"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settingsFile is the reference of settings, relative to the module's root.
const settingsFile = "docs/CONFIGURATION.md"

const settingsHead = `# Configuration

Every setting of the library and of ` + "`peerage node`" + `. This page is made from the comments of the
code: ` + "`go run ./internal/lint/house -api`" + ` writes it, and a test compares it with the code.

A setting that is left zero has its default. Durations are ` + "`time.Duration`" + ` in Go, and text such as
` + "`1.5s`" + ` or ` + "`200ms`" + ` in flags, variables and files. "Equal on all nodes" means that nodes compare
the setting when they meet, and reject each other if it differs. ` + "`peerage.Config.Validate`" + ` and
` + "`sharding.Type.Validate`" + ` report all invalid settings in one error.

- [The node](#peerageconfig): certificates, discovery, replicated data, partitions
- [Entity types](#shardingtype): limits, panics, eviction, replicated state, reliable delivery,
  singletons, daemons, strategies
- [The dashboard](#dashboardoptions)
- [The command](#peerage-node): flags, environment variables, file

[OPERATIONS.md](OPERATIONS.md) explains which of them to set, [SECURITY.md](../SECURITY.md) those
of certificates and keys.
`

const nodeFlagsHead = `
## peerage node

A flag can stand on the command line, in an environment variable, or in a YAML file that
` + "`--config`" + ` or ` + "`PEERAGE_CONFIG`" + ` names. The command line wins over the variable, the variable over
the file. In the file, the key is the name of the flag without dashes at the front, and lists are
lists: ` + "`join: [10.0.0.1:7101, 10.0.0.2:7101]`" + `. Paths in the file are relative to the file. A key that
is no flag of any command is an error. A file has at most 1 MiB.

| flag | variable | value | default | meaning |
|---|---|---|---|---|
`

// settingsPage returns the text of the reference.
func settingsPage(m *module) (string, error) {
	var b strings.Builder
	b.WriteString(settingsHead)
	for _, s := range settingsStructs {
		if err := m.writeStruct(&b, s.title, s.dir, s.name); err != nil {
			return "", err
		}
	}
	b.WriteString("\n## Values\n")
	for _, v := range settingsValues {
		all, err := m.valuesOf(v.dir, v.name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n| %s.%s | meaning |\n|---|---|\n", filepath.Base(v.dir), v.name)
		for _, s := range all {
			fmt.Fprintf(&b, "| `%s` | %s |\n", s.name, cell(strings.Join(sentencesOf(s.doc), " ")))
		}
	}
	flags, paths, err := m.nodeFlags()
	if err != nil {
		return "", err
	}
	b.WriteString(nodeFlagsHead)
	for _, f := range flags {
		b.WriteString(f.row(slices.Contains(paths, f.name)))
	}
	return b.String(), nil
}

// writeStruct writes the table of a struct, and the comments that are longer than their row.
func (m *module) writeStruct(b *strings.Builder, title, dir, name string) error {
	fields, doc, err := m.structSettings(dir, name)
	if err != nil {
		return err
	}
	p, err := m.packageAt(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| setting | type | default | unit | bounds | meaning |\n|---|---|---|---|---|---|\n", title, markdown(doc))
	var long strings.Builder
	var missing []string
	for _, f := range fields {
		inherited := f.doc == ""
		if inherited {
			if f.doc, err = m.inheritedComment(f.name); err != nil {
				missing = append(missing, title+"."+f.name)
			}
		}
		shown := "`" + f.name + "`"
		if inherited {
			shown = fmt.Sprintf("[%s](#shardingtype)", shown)
		} else if len(sentencesOf(f.doc)) > 1+len(boundsOf(f)) || strings.Contains(f.doc, "\n\n") {
			id := strings.ToLower(strings.ReplaceAll(title, ".", "-") + "-" + f.name)
			shown = fmt.Sprintf("[%s](#%s)", shown, id)
			fmt.Fprintf(&long, "\n<a id=\"%s\"></a>%s\n", id, strings.Replace(markdown(f.doc), f.name, "**"+f.name+"**", 1))
		}
		fmt.Fprintf(b, "| %s | `%s` | %s | %s | %s | %s |\n", shown, f.typ, cell(m.defaultText(p, f)), unitOf(f),
			cell(strings.Join(boundsOf(f), " ")), cell(meaningOf(f)))
	}
	if missing != nil {
		return fmt.Errorf("settings without a comment: %s", strings.Join(missing, ", "))
	}
	b.WriteString(long.String())
	return nil
}

// inheritedComment returns the comment of a field of sharding.Type: settings of singletons and
// daemons that have none are those of a type.
func (m *module) inheritedComment(name string) (string, error) {
	fields, _, err := m.structSettings("sharding", "Type")
	if err != nil {
		return "", err
	}
	for _, f := range fields {
		if f.name == name && f.doc != "" {
			return f.doc, nil
		}
	}
	return "", errors.New("no comment")
}

// row returns the row of a flag.
func (f nodeFlag) row(path bool) string {
	usage, value := f.doc, f.typ
	if from, rest, ok := strings.Cut(usage, "`"); ok { // the name of the value, as in the help
		named, end, _ := strings.Cut(rest, "`")
		usage, value = from+named+end, named
	}
	switch {
	case f.typ == "duration":
		value = "time"
	case f.list:
		value = strings.TrimPrefix(value+", list", "list, ")
	case path:
		value += ", path"
	}
	def := ""
	if f.value != "" {
		def = "`" + f.value + "`"
	}
	variable := "PEERAGE_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
	return fmt.Sprintf("| `--%s` | `%s` | %s | %s | %s |\n", f.name, variable, value, def, cell(usage))
}

// cell returns a text as it stands in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// markdown returns a comment as text of a page.
func markdown(doc string) string {
	return strings.TrimSpace(string(new(comment.Printer).Markdown(new(comment.Parser).Parse(doc))))
}

// writeSettings writes the reference.
func writeSettings(m *module) error {
	text, err := settingsPage(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.root, settingsFile), []byte(text), 0o644)
}

// checkSettings returns a sentence if the stored reference is not that of the code.
func checkSettings(m *module) []string {
	text, err := settingsPage(m)
	if err != nil {
		return []string{err.Error()}
	}
	stored, err := os.ReadFile(filepath.Join(m.root, settingsFile))
	if err != nil {
		return []string{err.Error()}
	}
	if string(stored) != text {
		return []string{settingsFile + " is not made from today's comments: run with -api"}
	}
	return nil
}
