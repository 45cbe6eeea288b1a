package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// viewChanged decides who is in office, applies the new view to
// shards and members, and admits the messages held for it. All consequences of a
// member's departure happen in this one step: its shards are placed again immediately.
func (c *Core) viewChanged(v *gossip.View) {
	if v == nil || c.view != nil && v.Epoch <= c.view.Epoch {
		return
	}
	old := c.view
	c.view = v
	c.election.viewChanged(v)
	c.settleOffice()
	if c.term == v.Epoch {
		c.census.noteVoters(old)
	}
	if c.term != 0 {
		c.dropGone()
		c.census.widen()
		c.dirty = true
	}
	held := c.held
	c.held = nil
	for _, r := range held {
		c.onReceived(r)
	}
}

// onStanding records which candidates have declined: this node may be elected now.
func (c *Core) onStanding(ev Standing) {
	c.election.refused = ev.Refused
	if c.term != 0 && ev.Term > c.term && !c.far(c.cfg.Self, ev.Term, "Standing") {
		c.overtaken(ev.Term)
	}
	if c.view == nil || ev.View != c.view.Epoch {
		return
	}
	c.election.AddDeclines(ev.Declined...)
	was := c.term
	if c.settleOffice(); was == 0 && c.term == 0 {
		c.remindElected()
	}
}

// remindElected repeats the decline of this node to the node that takes office if all candidates
// have declined. That node may wait for this one, and the decline of stepBack may be lost. A node
// that is not in office asks again and again, so the decline is repeated as often.
func (c *Core) remindElected() {
	elected := c.election.Candidate()
	if _, declined := c.election.DeclineOf(elected); declined && elected != c.cfg.Self {
		c.sayDeclined(elected)
	}
}

// settleOffice takes or leaves office according to the election. In another generation
// it takes office anew: the tokens given out before may have left no trace.
//
// Staying while the election is open is safe. The term stays the one in which office was
// taken, so it has a single holder. If another node does take office under a higher term,
// this coordinator is merely stale: regions that have reported to the new one reject its
// orders, and the fence rejects its writes. Its own region reports the higher term
// (Standing.Term).
func (c *Core) settleOffice() {
	anew := c.term == 0 || c.term.Generation() != c.view.Epoch.Generation()
	switch won := c.election.won(); {
	case won && anew:
		c.takeOffice()
	case !won && (anew || !c.election.mayWin()):
		c.stepBack()
	}
}

// stepBack leaves office to the elected node. Members that have registered in this
// view would not look for the elected node until the next view. The elected node may be
// among them, unaware that all candidates have declined.
func (c *Core) stepBack() {
	for i := range c.view.Members {
		n := c.view.Members[i].ID
		if p := c.members.peers[n]; p != nil && p.registered && n != c.cfg.Self {
			c.sayDeclined(n)
		}
	}
	c.leaveOffice("another is elected")
}

// takeOffice begins a term: the fenced read and the census leave together. The
// term is the view's epoch; views have one coordinator each, so terms do.
func (c *Core) takeOffice() {
	term := c.view.Epoch
	if term < c.fenced || term <= c.lastTerm {
		return
	}
	c.leaveOffice("taken anew")
	c.term, c.lastTerm = term, term
	c.table.makeShards(c.cfg.Shards)
	c.members.peers = map[gossip.NodeID]*peer{}
	c.nextRebalance = c.now.Add(c.cfg.Rebalance)
	c.traceEvent(TraceOffice, 0, c.termToken(), "")
	c.census.startCensus()
}

func (c *Core) leaveOffice(why string) {
	if c.term == 0 {
		return
	}
	c.traceEvent(TraceOfficeLeft, 0, c.termToken(), why)
	c.term, c.dirty = 0, false
	c.reset()
}

// overtaken leaves office because a higher term is held, and takes it again if
// the present view allows a term above that.
func (c *Core) overtaken(higher gossip.Epoch) {
	c.fenced = max(c.fenced, higher)
	c.leaveOffice("fenced by " + higher.String())
	c.settleOffice()
}

// onReceived holds early messages, rejects those from outside or with impossible
// terms, and dispatches the rest. A message with a term above this node's view that does
// not wait for a later view is forged. To obey it would leave the type without a
// coordinator until views have caught up with that term.
func (c *Core) onReceived(r Received) {
	h := r.Msg.Header()
	if c.view == nil || h.View > c.view.Epoch {
		c.holdEarly(r)
		return
	}
	if c.term == 0 {
		c.decline(r)
		return
	}
	if c.view.Member(r.From) == nil {
		c.traceEvent(TraceStale, r.From, c.termToken(), protocol.Name(r.Msg)+" from outside the view")
		return
	}
	if newest := protocol.NewestTerm(r.Msg); newest > c.view.Epoch {
		c.traceEvent(TraceFar, r.From, c.termToken(), protocol.Name(r.Msg)+" with the term "+newest.String())
		return
	}
	if h.Term > c.term {
		c.overtaken(h.Term)
		return
	}
	if c.forgedIn(r.Msg) {
		c.traceEvent(TraceFar, r.From, c.termToken(), protocol.Name(r.Msg)+" with a token that was not given out")
		return
	}
	c.dispatchMessage(r.From, r.Msg)
}

// decline replies to regions that take this node for the coordinator: it is none in this
// view. It answers the messages that regions repeat until they have an answer.
func (c *Core) decline(r Received) {
	switch r.Msg.(type) {
	case *protocol.Register, *protocol.GetHome, *protocol.Drain, *protocol.Stopped:
		c.sayDeclined(r.From)
	}
}

func (c *Core) sayDeclined(to gossip.NodeID) {
	if d, ok := c.election.DeclineOf(c.cfg.Self); ok {
		c.sendMessage(to, &protocol.Declined{Head: c.head(), Missing: d.Missing})
	}
}

const heldMax = 1024

// holdEarly keeps a message until our view has caught up with its sender's: in a
// takeover, regions often receive the new view before the new coordinator does.
func (c *Core) holdEarly(r Received) {
	if len(c.held) < heldMax {
		c.held = append(c.held, r)
	}
}

func (c *Core) dispatchMessage(from gossip.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Register:
		// A region that is registered under this term has received all published homes.
		if c.registerMember(from, m.Hosts, &m.Settings, m.Term != c.term) {
			c.sendMessage(from, &protocol.RegisterAck{Head: c.head()})
		}
	case *protocol.GetHome:
		if c.registerMember(from, m.Hosts, &m.Settings, false) {
			c.table.getHome(from, m.Shards)
		}
	case *protocol.ShardsHosted:
		c.members.answered(from)
		c.table.shardsHosted(from, m)
	case *protocol.BeginAck:
		c.members.answered(from)
		c.table.beginAck(from, m.Shards)
	case *protocol.Stopped:
		c.onStopped(from, m)
	case *protocol.CensusReport:
		c.members.answered(from)
		c.censusReport(from, m)
	case *protocol.Drain:
		c.drainRequest(from)
	case *protocol.Seen:
		c.members.answered(from)
	}
}

// registerMember notes a region or proxy. A new one, or one that has lost its routes,
// receives the homes of all served shards. It also takes part in the moves that are
// closing routes, since it may hold routes of an earlier coordinator. It returns
// false if the member's settings are not ours. A process that runs the type does so to its end, so a late
// copy of what it sent as one that only sends leaves it a host.
func (c *Core) registerMember(from gossip.NodeID, hosts bool, settings *protocol.Settings, tellAll bool) bool {
	hosts = hosts || c.members.peerOf(from).hosts
	agreed, fresh := c.members.noteRegistration(from, hosts, settings)
	if fresh {
		c.writes.noteRegistered(from, hosts, !c.members.findable(from))
		c.table.joinMoves(from)
	}
	if agreed && (fresh || tellAll) {
		c.table.tellServed(from)
	}
	return agreed
}

func (c *Core) censusReport(from gossip.NodeID, m *protocol.CensusReport) {
	if !c.registerMember(from, m.Hosts, &m.Settings, false) {
		// Its shards count all the same: they run there, and must not run elsewhere.
		c.members.peerOf(from).foreign = len(m.Claims) > 0
	}
	if higher := c.census.noteReport(from, m); higher != 0 {
		c.overtaken(higher)
	}
}

func (c *Core) readDone(ev ReadDone) {
	if c.term == 0 {
		return
	}
	if higher, overtaken := c.census.readDone(ev); overtaken {
		c.overtaken(higher)
	}
}

func (c *Core) writeDone(ev WriteDone) {
	if c.term == 0 {
		return
	}
	w, ok := c.writes.takeInFlight(ev.ID)
	switch {
	case !ok:
	case ev.Result == OK:
		c.table.written(w)
	case ev.Result == Fenced && !c.far(0, ev.Higher, "fence"):
		c.overtaken(ev.Higher)
	default:
		c.traceEvent(TraceWriteUnknown, 0, c.termToken(), "")
		c.writes.retryLater(w)
	}
}

// onStopped handles Stopped promises. Before the census is through, they only void claims.
func (c *Core) onStopped(from gossip.NodeID, m *protocol.Stopped) {
	for _, st := range m.Shards {
		if int(st.Shard) >= len(c.table.shards) {
			continue
		}
		c.outbox.acks.addItem(from, st)
		c.table.strays.confirmStopped(from, st)
		if c.table.surveyed {
			c.table.onShardStopped(from, m, st)
		} else {
			c.census.unserve(claim{node: from, shard: st.Shard, token: st.Token})
		}
	}
}

// dropGone handles members that have left the view: their shards become free,
// and the answers that they owed count as received.
func (c *Core) dropGone() {
	c.table.dropGone()
	for _, n := range c.members.dropGone() {
		c.writes.noteGone(n)
		c.traceEvent(TraceGone, n, c.termToken(), "")
	}
}

// drainRequest takes all shards from a member, immediately and in bulk. It answers each
// repeated request with the progress.
func (c *Core) drainRequest(from gossip.NodeID) {
	p := c.members.peerOf(from)
	if !p.draining {
		p.draining = true
		c.traceEvent(TraceDrain, from, c.termToken(), "")
	}
	p.drainAnswered = false
	c.sound()
}

// sound asks the members that have not yet registered: those that do not run
// the type answer only when asked. Drain is repeated, and so is this request.
func (c *Core) sound() {
	if !c.table.surveyed {
		return
	}
	for i := range c.view.Members {
		if m := &c.view.Members[i]; m.Status == gossip.Up && m.HasRole(c.cfg.Role) && c.members.unsaid(m.ID) {
			c.census.sendCensus(m.ID, false)
		}
	}
}
