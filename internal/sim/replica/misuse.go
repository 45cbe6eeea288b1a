package replica

import (
	"errors"
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/replicator"
)

// limits of the replicators in runs with requests. What the runs write uses a small part of them.
var limits = replication.Limits{RequestOps: 8, RequestBytes: 1 << 20, ValueBytes: 768 << 10, TotalBytes: 512 << 10}

// misused is a request that must be refused.
type misused struct {
	name string
	code replicator.Code
	replication.Update
}

// makeMisuse makes a request that must be refused in the step in which it is made, and change nothing.
func (c *requestClient) makeMisuse() {
	// The work that is due comes first: it does not belong to the request, and may show that the
	// disk fails, which changes the list.
	c.d.step(replication.Tick{})
	all := c.misusedRequests()
	c.makeMisused(all[c.rand.IntN(len(all))])
}

// makeMisused makes a request that must be refused, and checks the refusal. The caller has stepped what
// is due.
func (c *requestClient) makeMisused(m misused) {
	d := c.d
	m.Level = replicator.Local
	if !c.admits() {
		m.code = replicator.ErrLimit // before the core looks at the ops
	}
	before, answered := d.core.Digest(), false
	d.Update(m.Update, func(a replication.Reply) {
		answered = true
		if !errors.Is(a.Err, m.code) {
			d.p.Run.Fail("requests", "%s made a request with %s: %v", d.p.Label, m.name, a.Err)
		}
	})
	if !answered || d.core.Digest() != before {
		d.p.Run.Fail("requests", "%s made a request with %s: answered %v, changed %v", d.p.Label, m.name, answered, d.core.Digest() != before)
	}
	d.p.Run.Hit(coverage.Misused)
}

// admits reports whether the core admits requests, by an update without ops. A replica that
// has just loaded its file, and has kept as many own writes as it may, admits none.
func (c *requestClient) admits() bool {
	var refusal error
	c.d.Update(replication.Update{Level: replicator.Local}, func(a replication.Reply) { refusal = a.Err })
	if e := (*replicator.Error)(nil); refusal != nil && !(errors.As(refusal, &e) && e.Limit == "LogEntries") {
		c.d.p.Run.Fail("requests", "%s refuses an update without ops: %v", c.d.p.Label, refusal)
	}
	return refusal == nil
}

// misusedRequests lists requests that must be refused.
func (c *requestClient) misusedRequests() []misused {
	add := func(key string, growth int) operation.Op {
		return replication.Mutate(key, crdt.KindORSet, growth, func(v crdt.Value) crdt.Value {
			return v.(*crdt.ORSet[string]).Add(crdt.NodeID(c.d.p.Node.ID), "none")
		})
	}
	several := func(n, growth int) (ops []operation.Op) {
		for i := range n {
			ops = append(ops, add(fmt.Sprintf("%sset/%d", keyScratch, i), growth))
		}
		return ops
	}
	refused := add(keyScratch+"set/0", 1)
	refused.Plan = func(crdt.Value) (operation.Plan, error) { return operation.Plan{}, errors.New("not today") }
	unknown := add(keyScratch+"none", 1)
	unknown.Kind = 0
	far := replicator.Fence{Group: "far", Term: uint64(gossip.Epoch(1<<63 - 1))}
	all := []misused{
		{"too many keys", replicator.ErrLimit, replication.Update{Ops: several(limits.RequestOps+1, 1)}},
		{"too many bytes", replicator.ErrLimit, replication.Update{Ops: several(2, limits.RequestBytes/2+1)}},
		{"a value that is too large", replicator.ErrLimit, replication.Update{Ops: several(1, limits.ValueBytes+1)}},
		{"more bytes than all values may have", replicator.ErrLimit, replication.Update{Ops: several(1, limits.TotalBytes+1)}},
		{"a name that is too long", replicator.ErrLimit, replication.Update{Ops: []operation.Op{add(strings.Repeat("k", 600), 1)}}},
		{"a plan that refuses", replicator.ErrPlan, replication.Update{Ops: append(several(1, 1), refused)}},
		{"an unknown kind", replicator.ErrPlan, replication.Update{Ops: []operation.Op{unknown}}},
		{"a group whose name is too long", replicator.ErrLimit, replication.Update{Ops: several(1, 1), Fence: replicator.Fence{Group: strings.Repeat("g", 5000), Term: 1}}},
	}
	counter := replication.Mutate(keyScratch+"none", crdt.KindGCounter, 1, func(crdt.Value) crdt.Value { return nil })
	all = append(all, misused{"two kinds for a new key", replicator.ErrKind, replication.Update{Ops: []operation.Op{add(keyScratch+"none", 1), counter}}})
	if !c.d.hasRegister() {
		all = append(all, misused{"a term of no view", replicator.ErrLimit, replication.Update{Ops: several(1, 1), Fence: far}})
	}
	fails := c.d.disk != nil && c.d.disk.reported
	if it, exists := c.d.core.State(keyWords); exists && it.Bytes != nil && !fails {
		other := replication.Mutate(keyWords, crdt.KindPNCounter, 1, func(crdt.Value) crdt.Value { return nil })
		code := replicator.ErrKind
		all = append(all, misused{"another kind", code, replication.Update{Ops: []operation.Op{other}}})
	}
	if c.d.disk != nil && !fails {
		all = append(all, misused{"durable keys beside others", replicator.ErrMixed, replication.Update{Ops: append(several(1, 1), add(keyKept+"0", 1))}})
	}
	return all
}
