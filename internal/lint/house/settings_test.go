package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const settingsSample = `package p
// DefaultAge is the default of S.Age.
const DefaultAge Time = 3
const DefaultSize = 4096
type Time int
type Mode uint8
const (
	// On is the first mode.
	On Mode = iota
	// Off is the second mode. It is quieter.
	Off
)
// S holds settings.
type S struct {
	// Size is the size of a thing (equal). At most 8 MiB. It counts
	// twice. Default: DefaultSize; negative: none.
	SizeBytes int
	// Age has no number. Default:
	// DefaultAge.
	Age Time
	// Deep is "a.b:1": not two sentences. Default: "127.0.0.1:0".
	Deep string
	Bare, none bool
}
`

// moduleOf returns a module of one package with the text.
func moduleOf(t *testing.T, text string) (*module, *pack) {
	t.Helper()
	m := &module{fset: token.NewFileSet(), root: t.TempDir()}
	f, err := parser.ParseFile(m.fset, "p.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	p := &pack{dir: "p", files: []*source{{path: "p/p.go", ast: f}},
		info: &types.Info{Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}}
	if p.types, err = new(types.Config).Check("p", m.fset, []*ast.File{f}, p.info); err != nil {
		t.Fatal(err)
	}
	m.packages = []*pack{p}
	return m, p
}

// A comment gives the default, the bounds and the meaning of a setting; constants have values.
func TestSettingsAreReadFromComments(t *testing.T) {
	m, p := moduleOf(t, settingsSample)
	fields, doc, err := m.structSettings("p", "S")
	if err != nil || doc != "S holds settings.\n" || len(fields) != 4 {
		t.Fatalf("%d fields, %q, %v", len(fields), doc, err)
	}
	for i, want := range [][]string{
		{"SizeBytes", "4096 (`DefaultSize`); negative: none", "bytes", "Equal on all nodes. At most 8 MiB.", "Size is the size of a thing."},
		{"Age", "`DefaultAge`", "", "", "Age has no number."},
		{"Deep", `"127.0.0.1:0"`, "", "", `Deep is "a.b:1": not two sentences.`},
		{"Bare", "`false`", "", "", ""},
	} {
		f := fields[i]
		got := []string{f.name, m.defaultText(p, f), unitOf(f), strings.Join(boundsOf(f), " "), meaningOf(f)}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	values, err := m.valuesOf("p", "Mode")
	if err != nil || len(values) != 2 || values[1].name != "p.Off" || !strings.HasPrefix(values[1].doc, "Off is") {
		t.Errorf("%+v, %v", values, err)
	}
	if err := m.writeStruct(new(strings.Builder), "p.S", "p", "S"); err == nil {
		t.Error("a setting without a comment is accepted")
	}
	for _, wrong := range [][2]string{{"q", "S"}, {"p", "T"}, {"p", "Time"}} {
		if _, _, err := m.structSettings(wrong[0], wrong[1]); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

// A page that was edited by hand, or is of former comments, breaks the house; -api mends it.
func TestTheStoredSettingsAreCompared(t *testing.T) {
	m, err := loadModule("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if broken := checkSettings(m); len(broken) != 0 {
		t.Errorf("the stored page: %q", broken)
	}
	m.root = t.TempDir()
	if err := os.Mkdir(filepath.Join(m.root, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if broken := checkSettings(m); len(broken) != 1 {
		t.Errorf("a page that is missing: %q", broken)
	}
	if err := writeSettings(m); err != nil {
		t.Fatal(err)
	}
	if broken := checkSettings(m); len(broken) != 0 {
		t.Errorf("a page that was just written: %q", broken)
	}
	page := filepath.Join(m.root, settingsFile)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte(strings.Replace(string(text), "100 ms", "200 ms", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if broken := checkSettings(m); len(broken) != 1 {
		t.Errorf("a page with another default: %q", broken)
	}
}
