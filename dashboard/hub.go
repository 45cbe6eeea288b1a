package dashboard

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/sharding"
)

// hub polls the cluster while pages are open, and passes each state to them.
//
// One goroutine polls, so the members are asked once, however many pages are open. Each page
// has room for one state. A page that has not taken the last one by the next poll misses that
// state, and the write deadline of its stream ends a page that takes none.
type hub struct {
	from    source
	options Options
	// kick makes the next poll begin early.
	kick signal.Wake

	mu      sync.Mutex
	model   *model
	streams map[*stream]struct{}
	counts  streamCounts
	polling bool
	view    *gossip.View
	// lost are the times for which connections to members have been down, by the last poll.
	lost map[gossip.NodeID]time.Duration
}

// streamCounts are figures of the dashboard itself.
type streamCounts struct {
	Open    int    `json:"open"`
	Dropped uint64 `json:"dropped"`
	Refused uint64 `json:"refused"`
}

// stream is one open page.
type stream struct {
	typ    string
	states chan []byte // with room for one
}

func newHub(from source, o Options) *hub {
	return &hub{from: from, options: o, kick: signal.NewWake(), model: newModel(), streams: map[*stream]struct{}{}}
}

// openStream adds a page, and begins to poll if it is the first. It returns nil if too many
// are open.
func (h *hub) openStream(typ string) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) >= h.options.Streams {
		h.counts.Refused++
		return nil
	}
	s := &stream{typ: typ, states: make(chan []byte, 1)}
	h.streams[s] = struct{}{}
	h.counts.Open = len(h.streams)
	if !h.polling {
		h.polling = true
		go h.pollLoop()
	}
	h.kick.Set()
	return s
}

// closeStream removes a page. dropped is set if it read too slowly.
func (h *hub) closeStream(s *stream, dropped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
	h.counts.Open = len(h.streams)
	if dropped {
		h.counts.Dropped++
		h.options.Logger.Warn("dashboard: a page was dropped since it read nothing for too long; reload it", "dropped", h.counts.Dropped)
	}
	h.kick.Set()
}

// pollLoop polls until no page is open.
func (h *hub) pollLoop() {
	for {
		h.mu.Lock()
		types := map[string]bool{}
		for s := range h.streams { // order-free: a set
			types[s.typ] = true
		}
		if h.polling = len(h.streams) > 0; !h.polling {
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		states, members := h.pollOnce(types)
		h.sendStates(states)
		pause := time.NewTimer(pollEvery + time.Duration(members)*pollPerNode/2)
		select {
		case <-pause.C:
		case <-h.kick:
			pause.Reset(pollApart)
			<-pause.C
		}
		pause.Stop()
	}
}

// pollOnce returns the state for each type that a page has chosen; "" stands for the first.
func (h *hub) pollOnce(types map[string]bool) (states map[string][]byte, members int) {
	ctx, cancel := context.WithTimeout(context.Background(), queryMax)
	defer cancel()
	c := h.from.Collect(ctx)
	maps := map[string]askedShards{}
	for typ := range types { // order-free: each by itself
		name := chooseType(&c, typ)
		if _, asked := maps[name]; name != "" && !asked {
			stats, err := h.from.Shards(ctx, name)
			maps[name] = askedShards{stats, err}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.view, h.lost = c.View, lostTimes(&c)
	s := h.model.update(c)
	s.Streams, s.Allowed = h.counts, h.options.allowed()
	shardMaps := map[string]*shardMap{}
	for name, asked := range maps { // order-free: each by itself
		shardMaps[name] = h.model.mapShards(s, &asked.stats, asked.err, openShards(&c, name))
	}
	states = map[string][]byte{}
	for typ := range types { // order-free: each by itself
		s.Map = shardMaps[chooseType(&c, typ)]
		states[typ] = encodeState(s)
	}
	return states, len(s.Members)
}

// askedShards is the answer of a query about the shards of a type.
type askedShards struct {
	stats sharding.ClusterStats
	err   error
}

// encodeState encodes what is shown. The types of shown have no value that cannot be encoded.
func encodeState(s *shown) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// chooseType returns typ if the collecting node runs it, else the name of its first type.
func chooseType(c *figures.Cluster, typ string) (first string) {
	for _, t := range c.Nodes[0].Types {
		if t.Name == typ {
			return typ
		}
		if first == "" && !t.Unregistered {
			first = t.Name
		}
	}
	return first
}

// openShards returns the shards that the coordinator of a type has on their way.
func openShards(c *figures.Cluster, typ string) []uint32 {
	for i := range c.Nodes {
		for _, t := range c.Nodes[i].Types {
			if t.Name == typ && t.Coordinating {
				return t.Open
			}
		}
	}
	return nil
}

// lostTimes returns for each peer how long some member has had no connection to it: the
// longest time.
func lostTimes(c *figures.Cluster) map[gossip.NodeID]time.Duration {
	out := map[gossip.NodeID]time.Duration{}
	for i := range c.Nodes {
		for _, l := range c.Nodes[i].Links {
			out[l.Node] = max(out[l.Node], time.Duration(l.DownSeconds*float64(time.Second)))
		}
	}
	return out
}

// sendStates gives each page its newest state; a page that has not taken the last one
// misses it.
func (h *hub) sendStates(states map[string][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams { // order-free: each has its own channel
		state := states[s.typ]
		if state == nil {
			continue // it was opened during the poll
		}
		select {
		case <-s.states:
		default:
		}
		s.states <- state
	}
}

// onEvent adds an event of the node to the stream of events, and makes the next poll begin
// soon.
func (h *hub) onEvent(e gossip.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	add := func(level, text, detail string) { h.model.addEvent(now, level, text, detail) }
	switch e := e.(type) {
	case gossip.MemberJoined:
		add("ok", e.Member.Name+" is up", e.Member.AppVersion)
	case gossip.MemberLeft:
		h.model.gone = append(h.model.gone, departed{Member: e.Member, why: whyLeft, at: now})
		add("info", e.Member.Name+" left", "at its own wish")
	case gossip.MemberRemoved:
		why, evidence := removalText(e.Cause), evidenceText(e.Evidence)
		h.model.gone = append(h.model.gone, departed{Member: e.Member, why: why, evidence: evidence, at: now, lost: h.lost[e.Member.ID]})
		add("bad", e.Member.Name+" "+why, evidence)
	case gossip.LeaderChanged:
		if e.Leader != 0 {
			add("info", nameOf(h.view, e.Leader)+" leads", "")
		} else {
			add("warn", "no leader", "")
		}
	case gossip.QuorumLost:
		add("bad", "quorum lost", "entities of this node pause")
	case gossip.QuorumRegained:
		add("ok", "quorum regained", "")
	case gossip.LeaseChanged:
		h.model.noteLease(now, e.Valid)
	case gossip.Removed:
		add("bad", "this node was removed from its cluster", e.Reason)
	case gossip.ForeignCluster:
		add("bad", "another cluster of the same name", "check the contact points")
	case gossip.ViewChanged:
		h.view = e.View
	}
	h.kick.Set()
}

func removalText(c gossip.Cause) string {
	switch c {
	case gossip.CauseDead:
		return "crashed"
	case gossip.CauseSilent:
		return "did not respond, and was removed"
	case gossip.CauseYielded:
		return "was cut off from a member, and was removed"
	case gossip.CauseAssumed:
		return "was silent, and is assumed to have crashed"
	}
	return "was removed"
}

// evidenceText returns the evidence of a crash for people who do not know its kinds.
func evidenceText(evidence string) string {
	switch evidence {
	case "goodbye":
		return "it had signed off"
	case "other node":
		return "another process answers at its address"
	case "oracle":
		return "the crash oracle confirmed it"
	case "sealed refusal":
		return "connections refused, and its host reports the port as closed"
	case "refused":
		return "connections refused"
	}
	return evidence
}

// allowed names the actions that the options allow.
func (o *Options) allowed() (names []string) {
	if o.AllowDrain {
		names = append(names, "drain")
	}
	if o.AllowPlace {
		names = append(names, "place")
	}
	if o.AllowPassivate {
		names = append(names, "passivate")
	}
	return names
}
