package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type flags struct {
	set     *pflag.FlagSet
	name    string
	cert    string
	version string
	shards  int
	wait    time.Duration
	secure  bool
	join    []string
}

func newFlags(args ...string) *flags {
	f := &flags{set: pflag.NewFlagSet("test", pflag.ContinueOnError)}
	f.set.StringVar(&f.name, "name", "", "")
	f.set.StringVar(&f.cert, "tls-cert", "", "")
	f.set.StringVar(&f.version, "app-version", "", "")
	f.set.IntVar(&f.shards, "shards", 7, "")
	f.set.DurationVar(&f.wait, "lame-duck", 0, "")
	f.set.BoolVar(&f.secure, "http-tls", false, "")
	f.set.StringSliceVar(&f.join, "join", nil, "")
	MarkPaths(f.set, "tls-cert")
	if err := f.set.Parse(args); err != nil {
		panic(err)
	}
	return f
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *flags) load(path string, env map[string]string) error {
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	known := func(name string) bool { return f.set.Lookup(name) != nil || name == "node" }
	return Load(f.set, path, lookup, known)
}

// A flag wins over its variable, and that over the file; what none of them names keeps its
// default.
func TestFlagThenVariableThenFile(t *testing.T) {
	path := write(t, "name: file\nshards: 3\nlame-duck: 5s\nhttp-tls: true\njoin: [a:1, 'b:2']\napp-version: 1.10\ntls-cert: a.pem\nnode: x:1\n")
	f := newFlags("--name", "flag")
	if err := f.load(path, map[string]string{"PEERAGE_NAME": "env", "PEERAGE_SHARDS": "4"}); err != nil {
		t.Fatal(err)
	}
	if f.name != "flag" || f.shards != 4 || f.wait != 5*time.Second || !f.secure || !slices.Equal(f.join, []string{"a:1", "b:2"}) || f.version != "1.10" {
		t.Errorf("%+v", f)
	}
	if want := filepath.Join(filepath.Dir(path), "a.pem"); f.cert != want {
		t.Errorf("the path is %s, want %s: relative to the file", f.cert, want)
	}
	f = newFlags()
	if err := f.load("", nil); err != nil || f.shards != 7 || f.set.Changed("shards") {
		t.Errorf("without a file and a variable: %+v, %v", f, err)
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	for text, want := range map[string][]string{
		"nmae: a\n":            {"a.yaml", `no setting "nmae"`},
		"shards: many\n":       {"a.yaml: shards", `"many"`},
		"name: {first: a}\n":   {"a.yaml: name", "line 1", "a value or a list"},
		"join: [[a]]\n":        {"join", "line 1"},
		"just text\n":          {"a.yaml", "YAML"},
		"name: a\n\tshards: 3": {"a.yaml", "YAML"},
	} {
		err := newFlags().load(write(t, text), nil)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v does not say %q", text, err, w)
			}
		}
	}
	if err := newFlags().load("", map[string]string{"PEERAGE_SHARDS": "many"}); err == nil || !strings.Contains(err.Error(), "PEERAGE_SHARDS") {
		t.Errorf("a bad variable: %v", err)
	}
	if err := newFlags().load(filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("a file that does not exist: %v", err)
	}
}
