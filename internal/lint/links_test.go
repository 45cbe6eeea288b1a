package lint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// linked are the modules that a service links if it imports every public package of
// Peerage: what the library needs, and what its needs need. A module that only a command
// or a test uses must not be here.
var linked = []string{
	"github.com/beorn7/perks",
	"github.com/cespare/xxhash/v2",
	"github.com/google/btree",
	"github.com/hashicorp/errwrap",
	"github.com/hashicorp/go-immutable-radix",
	"github.com/hashicorp/go-metrics",
	"github.com/hashicorp/go-msgpack/v2",
	"github.com/hashicorp/go-multierror",
	"github.com/hashicorp/go-sockaddr",
	"github.com/hashicorp/golang-lru",
	"github.com/hashicorp/memberlist",
	"github.com/klauspost/cpuid/v2",
	"github.com/miekg/dns",
	"github.com/munnerz/goautoneg",
	"github.com/prometheus/client_golang",
	"github.com/prometheus/client_model",
	"github.com/prometheus/common",
	"github.com/prometheus/procfs",
	"github.com/sean-/seed",
	"github.com/vmihailenco/msgpack/v5",
	"github.com/vmihailenco/tagparser/v2",
	"github.com/zeebo/xxh3",
	"go.etcd.io/bbolt",
	"golang.org/x/net",
	"golang.org/x/sys",
	"google.golang.org/protobuf",
}

// TestAServiceLinksOnlyWhatTheLibraryNeeds lists the modules behind the imports of all public
// packages, and compares them with linked.
func TestAServiceLinksOnlyWhatTheLibraryNeeds(t *testing.T) {
	packages := map[string]bool{}
	for _, f := range tree(t) {
		if f.test || f.ast.Name.Name == "main" || strings.HasPrefix(f.pkg, "internal/") || strings.Contains(f.pkg, "/internal/") {
			continue
		}
		packages["./"+f.pkg] = true
	}
	if !packages["./."] || !packages["./sharding"] || len(packages) < 7 {
		t.Fatalf("the public packages are %v: the walk is broken", packages)
	}
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}
	for p := range packages {
		args = append(args, p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	for _, m := range slices.Compact(modules) {
		if m != module && !slices.Contains(linked, m) {
			t.Errorf("a service that embeds Peerage links %s: if the library needs it, name it in linked and in DEPENDENCIES.md", m)
		}
	}
	for _, m := range linked {
		if !slices.Contains(modules, m) {
			t.Errorf("no service links %s: remove it from linked", m)
		}
	}
}
