package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// assertStart asserts that a shard starts with a lease, after it has stopped, and under a
// token above all under which it may have run here.
func (hs *hostTable) assertStart(o protocol.HostOrder) {
	switch h := hs.list.entryOf(o.Shard); {
	case !hs.lease:
		assert.Broken("S1", "%v starts shard %d without a lease", hs.cfg.Self, o.Shard)
	case h.phase != none:
		assert.Broken("S11", "%v starts shard %d under %v, and has not stopped %v", hs.cfg.Self, o.Shard, o.Token, h.token)
	case !hs.floors.Token(o.Shard).Less(o.Token):
		assert.Broken("S7", "%v starts shard %d under %v, its floor is %v", hs.cfg.Self, o.Shard, o.Token, hs.floors.Token(o.Shard))
	}
}

// assertBegun asserts that the route of a shard is closed, and that no marker is in flight,
// when its Begin is confirmed.
func (rs *routeTable) assertBegun(st protocol.ShardToken) {
	if r := rs.list.entryOf(st.Shard); r.open || r.awaitedOwner() != 0 {
		assert.Broken("S3", "%v confirms Begin of shard %d; its route is open: %v, its marker in flight to %v", rs.cfg.Self, st.Shard, r.open, r.awaitedOwner())
	}
}

// assertTerm asserts that no order of a replaced coordinator is obeyed.
func (f *Floors) assertTerm(term gossip.Epoch) {
	if term < f.term {
		assert.Broken("G2", "an order of term %v is obeyed, the floor is %v", term, f.term)
	}
}
