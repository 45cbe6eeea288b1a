package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// cores are the packages that hold pure, single-threaded state machines.
var cores = []string{
	"crdt",
	"internal/crdt/canonical",
	"internal/crdt/dots",
	"internal/crdt/shared",
	"internal/core/view",
	"internal/core/replication",
	"internal/core/protocol",
	"internal/core/coordinator",
	"internal/core/region",
	"internal/core/chunks",
	"internal/core/mover",
	"internal/core/reliable",
	"internal/core/standby",
	"sharding/strategy",
	"internal/core/daemon",
	"internal/core/residency",
	"internal/fence",
	"internal/core/flow",
	"internal/core/route",
}

// impure are the imports that a core has no business with.
var impure = []string{
	"sync", "sync/atomic", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog",
	"net", "net/http", "os", "io/fs", "context", "runtime", "syscall",
}

// TestCoresArePure forbids what would make a step depend on anything but its
// arguments.
func TestCoresArePure(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range tree(t) {
		if !slices.Contains(cores, f.pkg) || f.test {
			continue
		}
		seen[f.pkg] = true
		for _, spec := range f.ast.Imports {
			if p := strings.Trim(spec.Path.Value, `"`); slices.Contains(impure, p) {
				t.Errorf("%s:%d: a core imports %s", f.path, f.line(spec), p)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if what := impureNode(n); what != "" {
				t.Errorf("%s:%d: a core uses %s", f.path, f.line(n), what)
			}
			return true
		})
	}
	for _, c := range cores {
		if !seen[c] {
			t.Errorf("core package %s has no files: the list is out of date", c)
		}
	}
}

func impureNode(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.SelectStmt:
		return "select"
	case *ast.SendStmt, *ast.ChanType:
		return "a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel"
		}
	case *ast.SelectorExpr:
		pkg, ok := n.X.(*ast.Ident)
		if ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}, n.Sel.Name) {
			return "time." + n.Sel.Name
		}
	}
	return ""
}
