package membership

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/transport"
)

// point is an address at which a node may be found.
type point struct {
	addr string
	// listed is set on this node's own contact points, former on its FormerMembers.
	listed, former bool
	// keepUntil is until when it is tried: a former member, or a contact point that
	// another node has listed.
	keepUntil clock.Instant
	peer      gossip.NodeID
	info      *contact
	infoAt    clock.Instant
	// askedAt is since when its node has been asked without an answer.
	askedAt clock.Instant
	probing bool
	next    clock.Instant
	wait    time.Duration
	// cause is the reason of its last failure.
	cause string
}

func (p *point) isFresh(now clock.Instant) bool {
	return p.info != nil && now.Sub(p.infoAt) <= freshFor
}

// pointTable holds the points: this node's contact points, those that other nodes list, former
// members, and nodes that have connected.
//
// Invariant: order holds the points of byAddr, sorted by address.
type pointTable struct {
	// self is the address of this node, which is no point.
	self string
	// own are the configured contact points as resolved; resolved is set after the first
	// resolution.
	own      []string
	resolved bool
	byAddr   map[string]*point
	order    []*point
	// named caches allPoints; nil when it must be recomputed.
	named []string
	// alias maps a listed address to the one advertised by the node that answered there.
	alias map[string]string
}

func newPointTable(self string) pointTable {
	return pointTable{self: self, byAddr: map[string]*point{}, alias: map[string]string{}}
}

// setOwn replaces this node's contact points. The caller marks their points.
func (t *pointTable) setOwn(addrs []string) {
	t.own, t.resolved, t.named = addrs, true, nil
	for _, p := range t.order {
		p.listed = false
	}
}

// findOrAdd returns the point of an address, and whether it is new: nil for this node's own
// address, and when there are too many.
func (t *pointTable) findOrAdd(now clock.Instant, addr string) (p *point, added bool) {
	addr = t.canonical(addr)
	p = t.byAddr[addr]
	if p == nil && addr != t.self && len(t.byAddr) < strangersMax+contactPointsMax {
		return t.addPoint(&point{addr: addr, next: now}), true
	}
	return p, false
}

// addPoint inserts a new point in order.
func (t *pointTable) addPoint(p *point) *point {
	t.byAddr[p.addr] = p
	i, _ := slices.BinarySearchFunc(t.order, p.addr, func(q *point, addr string) int { return compareAddrs(q.addr, addr) })
	t.order = slices.Insert(t.order, i, p)
	return p
}

func (t *pointTable) removePoint(p *point) {
	delete(t.byAddr, p.addr)
	t.order = slices.DeleteFunc(t.order, func(q *point) bool { return q == p })
	t.named = nil
}

func (t *pointTable) canonical(addr string) string {
	if a := t.alias[addr]; a != "" {
		return a
	}
	return addr
}

// tracks reports whether a node is already probed.
func (t *pointTable) tracks(n transport.Peer) bool {
	p := t.byAddr[n.Addr]
	return p != nil && p.peer == n.ID
}

// dropAnswer drops the answer of a point's node.
func (t *pointTable) dropAnswer(p *point) {
	if p.info != nil {
		p.info, t.named = nil, nil
	}
}

// movePoint moves a point to the address that its node advertises.
func (t *pointTable) movePoint(p *point, addr string) {
	t.alias[p.addr] = addr
	t.removePoint(p)
	if known := t.byAddr[addr]; known != nil {
		p.listed, p.former = known.listed || p.listed, known.former || p.former
		p.info, p.infoAt = known.info, known.infoAt
		t.removePoint(known)
	}
	p.addr = addr
	t.addPoint(p)
}

// ownPoints lists this node's own contact points, sorted. Only these are sent to other nodes:
// addresses learned from other nodes and sent on would never disappear.
func (t *pointTable) ownPoints() []string {
	return t.sortAddrs(slices.Clone(t.own))
}

// sortAddrs replaces addresses by those advertised there, sorts them and drops
// duplicates, in place.
func (t *pointTable) sortAddrs(addrs []string) []string {
	seen := make(map[string]bool, len(addrs))
	parsed := make([]parsedAddr, 0, len(addrs))
	for _, addr := range addrs {
		if addr = t.canonical(addr); !seen[addr] {
			seen[addr] = true
			parsed = append(parsed, parseAddr(addr))
		}
	}
	slices.SortFunc(parsed, parsedAddr.compareTo)
	addrs = addrs[:0]
	for _, p := range parsed {
		addrs = append(addrs, p.addr)
	}
	return addrs
}

// allPoints lists the contact points of this node and of the nodes that answer, sorted.
func (t *pointTable) allPoints() []string {
	if t.named != nil {
		return t.named
	}
	all := slices.Clone(t.own)
	for _, p := range t.order {
		if p.info != nil {
			all = append(all, p.info.Points...)
		}
	}
	t.named = t.sortAddrs(all)
	return t.named
}

// clusterInSight reports whether a node that answered recently belongs to a cluster.
func (t *pointTable) clusterInSight(now clock.Instant) bool {
	for _, p := range t.order {
		if p.isFresh(now) && p.info.Cluster != 0 {
			return true
		}
	}
	return false
}

// answering returns those of addrs that answer, this node included.
func (t *pointTable) answering(now clock.Instant, addrs []string) (out []string) {
	for _, addr := range addrs {
		if p := t.byAddr[addr]; addr == t.self || p != nil && p.isFresh(now) {
			out = append(out, addr)
		}
	}
	return out
}

// addrOf returns the address of the last point at which a node was found, or "".
func (t *pointTable) addrOf(id gossip.NodeID) (addr string) {
	for _, p := range t.order {
		if p.peer == id {
			addr = p.addr
		}
	}
	return addr
}

// agreed reports whether all candidates have the same list, apart from each node's own
// address.
func (t *pointTable) agreed(all []string) bool {
	if !sameBut(t.ownPoints(), all, t.self) {
		return false
	}
	for _, addr := range all {
		if p := t.byAddr[addr]; p != nil && !sameBut(p.info.Points, all, addr) {
			return false
		}
	}
	return true
}

// sameBut reports whether list equals all, ignoring own.
func sameBut(list, all []string, own string) bool {
	i := 0
	for _, addr := range all {
		switch {
		case i < len(list) && list[i] == addr:
			i++
		case addr != own:
			return false
		}
	}
	return i == len(list)
}

// failureCauses lists why the contact points of this node do not answer.
func (t *pointTable) failureCauses() (causes []string) {
	for _, p := range t.order {
		if p.listed && p.cause != "" {
			causes = append(causes, p.addr+": "+p.cause)
		}
	}
	return causes
}

// nextVisitAt returns when the next point is due.
func (t *pointTable) nextVisitAt() clock.Instant {
	d := clock.Never
	for _, p := range t.order {
		if !p.probing {
			d = clock.Min(d, p.next)
		}
	}
	return d
}

// parsedAddr is an address, and its parsed form if it is an IP address: comparisons in a sort would
// otherwise parse each address again and again.
type parsedAddr struct {
	addr string
	ip   netip.AddrPort
	isIP bool
}

func parseAddr(addr string) parsedAddr {
	ip, err := netip.ParseAddrPort(addr)
	return parsedAddr{addr, ip, err == nil}
}

// compareTo orders addresses, numerically if they are IP addresses.
func (p parsedAddr) compareTo(q parsedAddr) int {
	if p.isIP && q.isIP {
		return p.ip.Compare(q.ip)
	}
	return cmp.Compare(p.addr, q.addr)
}

// compareAddrs orders two addresses as parsedAddr.compareTo does.
func compareAddrs(a, b string) int { return parseAddr(a).compareTo(parseAddr(b)) }

// errUnresponsive is the cause when a contact point can be reached but does not answer.
type errUnresponsive struct{ self string }

func (e errUnresponsive) Error() string {
	return "it can be reached, but its answers do not arrive: can it reach this node at " + e.self + ", which it advertises?"
}

const nothingListens = "nothing listens there"

// causeOf returns the description of a probe's error for an operator.
func causeOf(err error) string {
	var refused *transport.RefusedError
	switch {
	case errors.As(err, &refused):
		return "it refused this node: " + refused.Reason
	case errors.Is(err, syscall.ECONNREFUSED):
		return nothingListens + " (connection refused): the node is not started yet, or the address is wrong"
	}
	return err.Error()
}
