package lint

import (
	"slices"
	"strings"
	"testing"
)

// layers says which packages of ours each package may import. A package that is not
// named is forbidden; "below" stands for a package's own subpackages.
var layers = []struct {
	pkg string
	may []string
}{
	{"internal/clock", nil},
	{"internal/wire", []string{"internal/wire"}},
	{"internal/headers", []string{"internal/wire"}},
	{"internal/lint/walk/operations", []string{".", "ddata", "gossip", "sharding"}},
	{"internal/lint", []string{"internal/lint/golist"}},
	{"internal/judge", nil},
	{"internal/explore", []string{"internal/core", "internal/explore", "gossip", "sharding/strategy", "internal/clock"}},
	{"internal/loglimit", nil},
	{"internal/assert", nil},
	{"internal/door", nil},
	{"internal/failure", nil},
	{"internal/fence", nil},
	{"internal/figures", []string{"gossip"}},
	{"internal/signal", nil},
	{"internal/typeshape", nil},
	{"internal/socket", nil},
	{"internal/driver", []string{"internal/clock", "internal/signal"}},
	{"internal/crdt", nil},
	{"crdt", []string{"internal/crdt"}},
	{"gossip", nil},
	{"internal/core/view", []string{"internal/assert", "gossip", "internal/clock", "internal/wire", "internal/invariant"}},
	{"internal/transport", []string{"gossip", "internal/clock", "internal/fence", "internal/loglimit", "internal/socket", "internal/wire", "internal/signal"}},
	{"internal/discovery", []string{"gossip", "internal/transport", "internal/discovery", "internal/loglimit", "internal/wire", "internal/signal"}},
	{"internal/membership", []string{"internal/driver", "internal/discovery", "gossip", "internal/core/view", "internal/transport", "internal/clock", "internal/loglimit", "internal/wire", "internal/signal"}},
	{"replicator", []string{"crdt", "gossip", "internal/clock"}},
	{"internal/operation", []string{"crdt", "gossip", "replicator", "internal/figures"}},
	{"internal/core/replication", []string{"internal/assert", "internal/core/replication", "internal/operation", "crdt", "gossip", "replicator", "internal/clock", "internal/figures", "internal/wire"}},
	{"internal/replica", []string{"internal/driver", "internal/core/replication", "internal/operation", "internal/replica", "internal/transport", "crdt", "gossip", "replicator", "internal/clock", "internal/figures", "internal/loglimit", "internal/wire", "internal/signal"}},
	{"ddata", []string{"ddata", "internal/operation", "replicator", "crdt", "gossip", "internal/clock", "internal/wire"}},
	{"sharding/strategy", []string{"gossip"}},
	{"internal/core/protocol", []string{"gossip", "sharding/strategy", "internal/clock", "internal/wire"}},
	{"internal/placement", []string{"internal/failure", "internal/core", "internal/activation", "internal/statecopy", "internal/statetransfer", "internal/transport", "sharding/strategy", "ddata", "replicator", "crdt", "gossip", "internal/clock", "internal/driver", "internal/loglimit", "internal/wire"}},
	{"internal/delivery", []string{"internal/driver", "internal/failure", "internal/headers", "internal/delivery", "internal/activation", "internal/core", "internal/transport", "sharding/strategy", "gossip", "internal/clock", "internal/figures", "internal/loglimit", "internal/signal", "internal/wire"}},
	{"sharding", []string{"internal/failure", "internal/headers", "sharding", "internal/delivery", "internal/placement", "internal/residency", "internal/statecopy", "internal/transport", "internal/activation", "internal/core", "crdt", "gossip", "internal/clock", "internal/figures", "internal/signal", "internal/typeshape"}},
	{"internal/core", []string{"internal/assert", "internal/failure", "internal/core", "gossip", "sharding/strategy", "internal/clock", "internal/invariant", "internal/wire"}},
	{"internal/activation", []string{"internal/failure", "internal/headers", "internal/activation", "internal/core", "gossip", "sharding/strategy", "internal/clock", "internal/loglimit", "internal/wire"}},
	{"internal/residency", []string{"internal/core/protocol", "internal/failure", "internal/core/daemon", "internal/core/residency", "internal/placement", "gossip", "sharding/strategy", "internal/clock", "internal/signal"}},
	{"internal/statetransfer", []string{"internal/core/protocol", "internal/activation", "internal/core/mover", "internal/core/region", "internal/clock", "internal/delivery/frames", "internal/transport", "gossip", "sharding/strategy", "internal/signal"}},
	{"internal/statecopy", []string{"internal/failure", "internal/delivery/frames", "internal/core/standby", "internal/core/protocol", "internal/activation", "internal/transport", "gossip", "sharding/strategy", "internal/clock", "internal/driver", "internal/loglimit"}},
	{"metrics", []string{".", "metrics", "sharding", "ddata", "replicator", "crdt", "gossip", "internal/transport", "internal/clock", "internal/figures", "internal/membership"}},
	{"dashboard", []string{".", "gossip", "sharding", "internal/door", "internal/figures", "internal/signal"}},
	{"peeragetest", []string{".", "gossip", "sharding"}},
	{"internal/invariant", []string{"gossip", "internal/core/protocol", "internal/clock"}},
	{"internal/sim", []string{"internal", "crdt", "gossip", "replicator",
		"sharding/strategy"}},
	{"internal/harness", []string{"internal/harness", ".", "dashboard", "sharding", "ddata", "replicator", "gossip", "internal/clock", "internal/history", "internal/loglimit"}},
	{".", []string{"sharding", "ddata", "internal/membership", "internal/transport", "internal/replica", "internal/operation", "replicator", "gossip", "crdt", "metrics", "internal/clock", "internal/figures", "internal/door", "internal/placement"}},
}

// TestImportsRunOneWay enforces the direction of imports: crdt <- replicator <- ddata <-
// sharding, gossip <- replicator, gossip <- sharding; all other packages sit on top.
func TestImportsRunOneWay(t *testing.T) {
	for _, f := range tree(t) {
		may, ruled := allowed(f.pkg)
		if !ruled || f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			target, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if !ours {
				continue
			}
			target = strings.TrimPrefix(target, "/")
			if target == "" {
				target = "."
			}
			ok := slices.ContainsFunc(may, func(dir string) bool { return in(target, dir) && (dir != "." || target == ".") })
			if !ok {
				t.Errorf("%s:%d: %s must not import %s", f.path, f.line(spec), f.pkg, target)
			}
		}
	}
}

// allowed returns the rule with the longest matching package.
func allowed(pkg string) (may []string, ruled bool) {
	best := -1
	for _, l := range layers {
		match := pkg == l.pkg || l.pkg != "." && in(pkg, l.pkg)
		if match && len(l.pkg) > best {
			best, may, ruled = len(l.pkg), l.may, true
		}
	}
	return may, ruled
}
