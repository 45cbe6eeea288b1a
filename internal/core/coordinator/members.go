package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// peer is the coordinator's record of a member in this term.
type peer struct {
	// asked: the census has asked it.
	asked bool
	// registered regions and proxies receive homes and moves.
	registered bool
	hosts      bool
	settings   protocol.Settings
	// refused is how its settings differ from ours: it is not registered.
	refused protocol.Conflict
	// messages names those of its messages that have another shape than ours, "" for none.
	messages string
	// listed: the records name it as a region or proxy, so that a successor will find it.
	listed bool
	// foreign: it hosts shards under such settings.
	foreign bool
	// draining members asked to be relieved of their shards.
	draining bool
	// drainAnswered: the last Drain was answered.
	drainAnswered bool
	// going is a shard that was on its way to the member or away when that was last asked.
	going protocol.ShardID
	// owed is since when probes have gone unanswered, zero if none is out.
	owed clock.Instant
	// yielded is when the leader was last asked to end a lease (Yield).
	yielded clock.Instant
}

// members are the members of the view as this term has met them: what they have registered
// as, whether they answer, and which may have routes to close (routers.go).
type members struct {
	*env
	peers map[gossip.NodeID]*peer
	// owing: some member may owe an answer (peer.owed).
	owing bool
}

// peerOf returns the entry of a member and creates it if missing.
func (ms *members) peerOf(n gossip.NodeID) *peer {
	p := ms.peers[n]
	if p == nil {
		p = &peer{}
		ms.peers[n] = p
	}
	return p
}

// registered returns the regions and proxies that receive homes, most senior first.
func (ms *members) registered() []gossip.NodeID {
	var out []gossip.NodeID
	for i := range ms.view.Members {
		n := ms.view.Members[i].ID
		if p := ms.peers[n]; p != nil && p.registered {
			out = append(out, n)
		}
	}
	return out
}

// noteRegistration notes a region or proxy. It returns false, and replies with the difference, if the
// member's settings are not ours. fresh is set if it had not registered in this form.
func (ms *members) noteRegistration(from gossip.NodeID, hosts bool, settings *protocol.Settings) (agreed, fresh bool) {
	p := ms.peerOf(from)
	if !ms.agrees(from, p, settings) {
		return false, false
	}
	if p.settings != *settings {
		p.settings, ms.dirty = *settings, true
	}
	if p.registered && p.hosts == hosts {
		return true, false
	}
	p.registered, p.hosts, ms.dirty = true, hosts, true
	ms.traceEvent(TraceRegistered, from, ms.termToken(), "")
	return true, true
}

// agrees refuses a region or proxy that maps ids to shards, or shards to nodes,
// by other settings than ours.
func (ms *members) agrees(from gossip.NodeID, p *peer, settings *protocol.Settings) bool {
	ours := protocol.Settings{Shards: uint32(ms.cfg.Shards), Role: ms.cfg.Role, ShardOf: ms.cfg.ShardOf, Keeps: ms.cfg.Keeps}
	conflict := ours.Compare(settings)
	if conflict != p.refused {
		p.refused = conflict
		if conflict != (protocol.Conflict{}) {
			ms.traceEvent(TraceRefused, from, ms.termToken(), conflict.String())
		}
	}
	if conflict == (protocol.Conflict{}) {
		ms.compareMessages(from, p, settings.Messages)
		return true
	}
	p.registered = false
	ms.sendMessage(from, &protocol.RegisterRefused{Head: ms.head(), Conflict: conflict.Swap()})
	return false
}

// compareMessages traces, once, that the messages of a region have another shape than ours: a
// rolling update that adds a field looks so, and it is registered all the same.
func (ms *members) compareMessages(from gossip.NodeID, p *peer, theirs protocol.Shapes) {
	differ := ms.cfg.Messages.Compare(theirs)
	if differ != "" && differ != p.messages {
		ms.traceEvent(TraceMessages, from, ms.termToken(), differ)
	}
	p.messages = differ
}

// foreignHosts reports whether shards run somewhere that were cut by other
// settings than ours. An entity of theirs may belong to any of our shards, so
// nothing new is placed meanwhile: better no home than two.
func (ms *members) foreignHosts() bool {
	for _, p := range ms.peers { // order-free: any will do
		if p.foreign {
			return true
		}
	}
	return false
}

// dropGone drops the members that have left the view, and returns them.
func (ms *members) dropGone() []gossip.NodeID {
	var left []gossip.NodeID
	for n := range ms.peers {
		if ms.view.Member(n) == nil {
			left = append(left, n)
		}
	}
	slices.Sort(left)
	for _, n := range left {
		delete(ms.peers, n)
	}
	return left
}

// answered notes that an order reached the member.
func (ms *members) answered(from gossip.NodeID) {
	if p := ms.peerOf(from); p.owed != 0 {
		p.owed, ms.dirty = 0, true
	}
}

// unanswered notes orders to these members as the only ones in flight. It runs at a
// resend, and when no order is in flight. When a member has not answered
// for RemoveAfter, unanswered asks the leader to end one of the two leases (Yield).
func (ms *members) unanswered(nodes []gossip.NodeID) {
	ms.owing = len(nodes) > 0
	for i := range ms.view.Members {
		n := ms.view.Members[i].ID
		p := ms.peers[n]
		if p == nil {
			continue
		}
		switch {
		case n == ms.cfg.Self || !slices.Contains(nodes, n):
			ms.dirty = ms.dirty || p.owed != 0
			p.owed = 0
		case p.owed == 0:
			p.owed = ms.now
		case ms.now.Sub(p.owed) >= ms.cfg.RemoveAfter && (p.yielded == 0 || ms.now.Sub(p.yielded) >= ms.cfg.RemoveAfter):
			p.yielded = ms.now
			ms.traceEvent(TraceYield, n, ms.termToken(), "")
			ms.out.Do = append(ms.out.Do, Yield{Subject: n})
		}
	}
}

// isSilent reports whether a member gets no shards for now: it is on the Silent
// list, or two probes in a row had no answer.
func (ms *members) isSilent(n gossip.NodeID) bool {
	if n == ms.cfg.Self {
		return false
	}
	p := ms.peers[n]
	return slices.Contains(ms.silent, n) || p != nil && p.owed != 0 && ms.now.Sub(p.owed) >= ms.cfg.Resend
}

// unsettled returns why shards must not be moved now, "" if they may.
func (ms *members) unsettled() string {
	version, first := "", true
	for i := range ms.view.Members {
		m := &ms.view.Members[i]
		if !m.HasRole(ms.cfg.Role) {
			continue
		}
		switch p := ms.peers[m.ID]; {
		case m.Status == gossip.Joining:
			return "a member is joining"
		case ms.isSilent(m.ID):
			return "a member is silent"
		case p == nil || !p.registered || !p.hosts:
		case first:
			version, first = m.AppVersion, false
		case m.AppVersion != version:
			return "versions are mixed"
		}
	}
	return ""
}

// leaving reports whether a member must lose its shards. When the cluster has
// yielded to another cluster, all members must, and no shard is placed any longer.
func (ms *members) leaving(n gossip.NodeID) bool {
	m := ms.view.Member(n)
	return m != nil && m.Status == gossip.Leaving || ms.drains(n)
}

// memberLeaves is leaving for an entry of the view. View.Member looks at one member after the other,
// so a pass over all members must not call it.
func (ms *members) memberLeaves(m *gossip.Member) bool {
	return m.Status == gossip.Leaving || ms.drains(m.ID)
}

// drains reports whether a member must lose its shards, whatever its status.
func (ms *members) drains(n gossip.NodeID) bool {
	p := ms.peers[n]
	return ms.view.Yields() != nil || p != nil && p.draining
}

// unsaid reports whether a member has neither registered nor been refused.
func (ms *members) unsaid(n gossip.NodeID) bool {
	p := ms.peers[n]
	return p == nil || !p.registered && p.refused == (protocol.Conflict{})
}

// elsewhere reports whether any region can take shards, or may be able to soon: a
// silent one, or a member that is joining or has not registered yet. Such a member
// either becomes ready or leaves the view, so the wait ends; and a draining member
// has a time-out of its own.
func (ms *members) elsewhere() bool {
	for i := range ms.view.Members {
		m := &ms.view.Members[i]
		if !m.HasRole(ms.cfg.Role) || ms.memberLeaves(m) {
			continue
		}
		if p := ms.peers[m.ID]; ms.unsaid(m.ID) || p.registered && p.hosts {
			return true
		}
	}
	return false
}
