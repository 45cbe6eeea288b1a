package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/sharding"
)

// This file decides what is shown. It is a function of what the nodes report: see model.update.

const (
	eventsMax = 100
	// goneFor is how long a former member is shown.
	goneFor = 10 * time.Minute
	goneMax = 8
	// recentFor is how long a shard is marked after its home has changed.
	recentFor = 6 * time.Second
)

// model keeps what the next state is compared with. It belongs to the hub's mutex.
type model struct {
	before map[gossip.NodeID]figures.Node
	at     time.Time
	colors map[gossip.NodeID]int
	gone   []departed
	events []event
	last   uint64
	// paused is the ID of the event about a lease that has ended and is not valid again, 0 if none.
	paused  uint64
	homes   map[string][]gossip.NodeID
	changed map[string]map[uint32]time.Time
	silent  map[gossip.NodeID]bool
	moves   map[string]int
	rows    map[gossip.NodeID]int
}

// departed is a former member.
type departed struct {
	gossip.Member
	why, evidence string
	at            time.Time
	// lost is how long before it the connection was lost, 0 if that is not on record.
	lost time.Duration
}

// measureLoss sets lost from the links of the collecting node, which are read after the
// removal: a connection is often lost and its peer removed between two polls.
func (d *departed) measureLoss(c *figures.Cluster) {
	if d.lost > 0 {
		return
	}
	for _, l := range c.Nodes[0].Links {
		if l.Node == d.ID {
			lostAt := c.At.Add(-time.Duration(l.DownSeconds * float64(time.Second)))
			d.lost = max(0, d.at.Sub(lostAt))
		}
	}
}

func newModel() *model {
	return &model{
		before: map[gossip.NodeID]figures.Node{}, colors: map[gossip.NodeID]int{}, homes: map[string][]gossip.NodeID{},
		changed: map[string]map[uint32]time.Time{}, silent: map[gossip.NodeID]bool{}, moves: map[string]int{},
	}
}

// update returns what is shown after a poll, without a shard map.
func (m *model) update(c figures.Cluster) *shown {
	s := &shown{Cluster: c.Cluster, At: c.At}
	nodes := map[gossip.NodeID]*figures.Node{}
	for i := range c.Nodes {
		nodes[c.Nodes[i].ID] = &c.Nodes[i]
	}
	if own := nodes[c.Self]; own != nil {
		s.Seen = own.Name
	}
	if c.View != nil {
		s.View = c.View.Epoch.String()
	}
	span := c.At.Sub(m.at).Seconds()
	if m.at.IsZero() || span <= 0 {
		span = 0
	}
	m.addMembers(s, &c, nodes, span)
	m.addTypes(s, &c, span)
	m.addData(s, &c, span)
	m.noteSilence(s)
	m.noteMoves(&c)
	s.Fail = m.describeFailover(&c)
	s.Health = judge(s, &c, nodes[c.Self])
	s.Events = slices.Clone(m.events)
	m.at = c.At
	clear(m.before)
	for i := range c.Nodes {
		m.before[c.Nodes[i].ID] = c.Nodes[i]
	}
	return s
}

// colorOf returns the colour of a node: the lowest that no present node has, kept for life.
func (m *model) colorOf(id gossip.NodeID) int {
	if c, ok := m.colors[id]; ok {
		return c
	}
	taken := map[int]bool{}
	for _, c := range m.colors { // order-free: a set
		taken[c] = true
	}
	c := 0
	for taken[c] {
		c++
	}
	m.colors[id] = c
	return c
}

func (m *model) addMembers(s *shown, c *figures.Cluster, nodes map[gossip.NodeID]*figures.Node, span float64) {
	var members []gossip.Member
	if c.View != nil {
		members = c.View.Members
	} else if own := nodes[c.Self]; own != nil {
		members = []gossip.Member{{Node: gossip.Node{ID: own.ID, Name: own.Name, Addr: own.Addr}}}
	}
	m.rows = map[gossip.NodeID]int{}
	present := map[gossip.NodeID]bool{}
	for i := range members {
		id := members[i].ID
		m.rows[id], present[id] = i, true
		s.Members = append(s.Members, m.memberRow(&members[i], c, nodes[id], span))
	}
	m.gone = slices.DeleteFunc(m.gone, func(d departed) bool { return c.At.Sub(d.at) > goneFor })
	m.gone = m.gone[max(0, len(m.gone)-goneMax):]
	for i := range m.gone {
		d := &m.gone[i]
		if present[d.ID] {
			continue // the poll began before it was removed
		}
		d.measureLoss(c)
		present[d.ID] = true
		s.Members = append(s.Members, memberRow{ID: d.ID, Name: d.Name, Addr: d.Addr, Color: m.colorOf(d.ID), Gone: d.why, GoneAt: d.at, Lease: -1})
	}
	for id := range m.colors { // order-free: deletions
		if !present[id] {
			delete(m.colors, id)
		}
	}
}

func (m *model) memberRow(g *gossip.Member, c *figures.Cluster, n *figures.Node, span float64) memberRow {
	r := memberRow{
		ID: g.ID, Name: g.Name, Addr: g.Addr, Color: m.colorOf(g.ID), Status: g.Status.String(), Version: g.AppVersion,
		Roles: g.Roles, Zone: g.Zone, Self: g.ID == c.Self, Lease: -1, Rate: -1,
	}
	if c.View == nil {
		r.Status = "in no cluster"
	}
	if own := c.Nodes[0]; own.Leader == g.ID {
		r.Leader = true
	}
	if n == nil {
		return r
	}
	r.Answers, r.Ready, r.NotReady, r.Memory, r.Up = true, n.Ready, n.NotReady, n.MemoryBytes, n.UpSeconds
	if n.Lease.Valid {
		r.Lease, r.LeaseMS = 1, n.Lease.LeftSeconds*1000
		if n.Lease.FullSeconds > 0 {
			r.Lease = min(1, n.Lease.LeftSeconds/n.Lease.FullSeconds)
		}
	}
	for _, l := range n.Links {
		switch {
		case c.View.Member(l.Node) == nil:
		case l.Out && l.In:
			r.Links++
		default:
			r.Down = append(r.Down, nameOf(c.View, l.Node))
		}
	}
	old, known := m.before[g.ID]
	var handled, handledOld uint64
	for i := range n.Types {
		t := &n.Types[i]
		r.Shards, r.Entities, handled = r.Shards+t.Shards, r.Entities+t.Entities, handled+t.Handled
		if t.Coordinating {
			r.Coordinates = append(r.Coordinates, t.Name)
		}
	}
	for i := range old.Types {
		handledOld += old.Types[i].Handled
	}
	if known && span > 0 {
		r.Rate = perSecond(handled, handledOld, span)
	}
	return r
}

// perSecond returns the rate of a counter, 0 if it was reset.
func perSecond(now, before uint64, span float64) float64 {
	if now < before || span <= 0 {
		return 0
	}
	return float64(now-before) / span
}

func (m *model) addTypes(s *shown, c *figures.Cluster, span float64) {
	rows := map[string]*typeRow{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		old, known := m.before[n.ID]
		for j := range n.Types {
			t := &n.Types[j]
			r := rows[t.Name]
			if r == nil {
				r = &typeRow{Name: t.Name, Rate: -1, P50: -1, P99: -1}
				rows[t.Name] = r
			}
			var before *figures.Type
			if k := slices.IndexFunc(old.Types, func(o figures.Type) bool { return o.Name == t.Name }); k >= 0 {
				before = &old.Types[k]
			}
			if known && before == nil {
				before = &figures.Type{}
			}
			r.addNode(n, t, before, span)
		}
	}
	sum := &s.Totals
	sum.AskRate, sum.P50, sum.P99, sum.Answering = -1, -1, -1, len(c.Nodes)
	var all growth
	for _, r := range rows { // order-free: sorted below
		r.P50, r.P99 = r.asks.percentiles()
		all.before, all.now = addCounts(all.before, r.asks.before), addCounts(all.now, r.asks.now)
		sum.Entities, sum.Shards, sum.Moving = sum.Entities+r.Entities, sum.Shards+r.Shards, sum.Moving+r.Moving
		sum.Doubles, sum.Losses, sum.Buffered = sum.Doubles+r.doubles, sum.Losses+r.losses, sum.Buffered+r.Waiting
		sum.Handoffs += r.handoffs
		if r.Rate >= 0 {
			sum.AskRate = max(0, sum.AskRate) + r.Rate
		}
		sum.Measured = sum.Measured || r.sampled
		s.Types = append(s.Types, *r)
	}
	sum.P50, sum.P99 = all.percentiles()
	slices.SortFunc(s.Types, func(a, b typeRow) int { return cmp.Compare(a.Name, b.Name) })
}

// addNode adds the figures of one node. before are its former ones, nil if there are none.
func (r *typeRow) addNode(n *figures.Node, t, before *figures.Type, span float64) {
	r.Role, r.Total = t.Role, max(r.Total, t.ShardsTotal)
	r.Shards, r.Entities, r.Standby, r.StateBytes = r.Shards+t.Shards, r.Entities+t.Entities, r.Standby+t.StandbyShards, r.StateBytes+t.StateBytes
	r.Asks, r.Waiting, r.Moving = r.Asks+t.Asks, r.Waiting+t.Buffered+t.Waiting, r.Moving+len(t.Open)
	r.Oldest = max(r.Oldest, t.OldestHandlerSeconds)
	r.Remembered, r.Unconfirmed = r.Remembered+t.RememberedWaiting, r.Unconfirmed+t.Unconfirmed
	r.doubles, r.losses = r.doubles+t.Duplicates, r.losses+t.StateLosses+t.StatesLost
	if t.Coordinating {
		r.Coordinator = n.Name
	}
	switch {
	case t.Refused != "":
		r.Problems = append(r.Problems, n.Name+" is not registered: "+t.Refused)
	case t.Unregistered:
		r.Problems = append(r.Problems, n.Name+" has the role and does not run the type")
	}
	r.sampled = r.sampled || t.AskBuckets != nil
	if before == nil || span <= 0 {
		return
	}
	r.Rate = max(0, r.Rate) + perSecond(t.Handled, before.Handled, span)
	r.Dropped += perSecond(t.Dropped, before.Dropped, span)
	r.handoffs += perSecond(t.HandoffsIn, before.HandoffsIn, span)
	r.asks.addNode(before.AskBuckets, t.AskBuckets)
}

func (m *model) addData(s *shown, c *figures.Cluster, span float64) {
	rows := map[string]*dataRow{}
	for i := range c.Nodes {
		for _, d := range c.Nodes[i].Data {
			r := rows[d.Role]
			if r == nil {
				r = &dataRow{Role: d.Role}
				rows[d.Role] = r
			}
			if before, known := m.dataBefore(c.Nodes[i].ID, d.Role); known && span > 0 {
				r.writes.addNode(before.WriteBuckets, d.WriteBuckets)
				r.reads.addNode(before.ReadBuckets, d.ReadBuckets)
			}
			r.Replicas++
			r.Keys, r.Tombstones, r.Bytes = max(r.Keys, d.Keys), max(r.Tombstones, d.Tombstones), max(r.Bytes, d.Bytes)
			if r.Pending += d.Pending; d.Lag > r.Lag {
				r.Lag, r.Behind = d.Lag, nameOf(c.View, d.Behind)
			}
			if !d.Settled {
				r.Unsettled++
			}
			if d.DurableFailing {
				r.Failing++
			}
		}
	}
	for _, r := range rows { // order-free: sorted below
		r.WriteP50, r.WriteP99 = r.writes.percentiles()
		r.ReadP50, r.ReadP99 = r.reads.percentiles()
		s.Data = append(s.Data, *r)
	}
	slices.SortFunc(s.Data, func(a, b dataRow) int { return cmp.Compare(a.Role, b.Role) })
}

// dataBefore returns the figures of a role's data that a node reported at the last poll, empty if the
// role is new. known reports whether the node reported any.
func (m *model) dataBefore(id gossip.NodeID, role string) (d figures.DataSet, known bool) {
	old, known := m.before[id]
	if i := slices.IndexFunc(old.Data, func(d figures.DataSet) bool { return d.Role == role }); i >= 0 {
		d = old.Data[i]
	}
	return d, known
}

// mapShards returns where the shards of a type run. err is the error of the query.
func (m *model) mapShards(s *shown, c *sharding.ClusterStats, err error, open []uint32) *shardMap {
	out := &shardMap{Type: c.Type, Moving: open}
	if i := slices.IndexFunc(s.Types, func(t typeRow) bool { return t.Name == c.Type }); i >= 0 {
		out.Total = s.Types[i].Total
	}
	if err != nil {
		out.Error = err.Error()
	}
	out.Homes, out.Entities = make([]int16, out.Total), make([]uint32, out.Total)
	ids := make([]gossip.NodeID, out.Total)
	for i := range out.Homes {
		out.Homes[i] = -1
	}
	for _, f := range c.Failed {
		for _, shard := range f.Shards {
			if int(shard) < out.Total {
				out.Homes[shard] = -2
			}
		}
	}
	for _, n := range c.Nodes {
		at, ok := m.rows[n.Node]
		for _, shard := range n.Shards {
			if i := int(shard.Shard); ok && i < out.Total {
				out.Homes[i], out.Entities[i], ids[i] = int16(at), uint32(shard.Entities), n.Node
			}
		}
	}
	if err == nil {
		out.Recent = m.noteHomes(c.Type, ids, s.At)
	}
	return out
}

// noteHomes compares the homes with the former ones and returns the shards that moved a
// moment ago.
func (m *model) noteHomes(typ string, ids []gossip.NodeID, now time.Time) (recent []uint32) {
	old, changed := m.homes[typ], m.changed[typ]
	if changed == nil {
		changed = map[uint32]time.Time{}
		m.changed[typ] = changed
	}
	kept := slices.Clone(ids)
	for i, id := range ids {
		if i < len(old) && old[i] != 0 {
			if id == 0 {
				kept[i] = old[i] // on its way
			} else if id != old[i] {
				changed[uint32(i)] = now
			}
		}
	}
	m.homes[typ] = kept
	for shard, at := range changed { // order-free: sorted below
		if now.Sub(at) > recentFor {
			delete(changed, shard)
			continue
		}
		recent = append(recent, shard)
	}
	slices.Sort(recent)
	return recent
}

// addEvent adds a line to the event stream.
func (m *model) addEvent(at time.Time, level, text, detail string) {
	m.last++
	m.events = append(m.events, event{ID: m.last, At: at, Level: level, Text: text, Detail: detail})
	m.events = m.events[max(0, len(m.events)-eventsMax):]
}

// noteLease adds an event when the lease of the page's node has ended. The same line says later for
// how long the entities paused: nodes that lack processor time pause often.
func (m *model) noteLease(at time.Time, valid bool) {
	if !valid {
		m.addEvent(at, "warn", "the lease of this node has ended", "its entities pause")
		m.paused = m.last
		return
	}
	if i := slices.IndexFunc(m.events, func(e event) bool { return e.ID == m.paused }); i >= 0 {
		e := &m.events[i]
		e.Text, e.Detail = "this node had no lease", "its entities paused for "+millisText(float64(at.Sub(e.At).Microseconds())/1000)
	}
	m.paused = 0
}

// noteSilence adds events about members that stop to answer, or answer again.
func (m *model) noteSilence(s *shown) {
	seen := map[gossip.NodeID]bool{}
	for i := range s.Members {
		r := &s.Members[i]
		// A poll that began before a removal still lists the member.
		if r.Gone != "" || slices.ContainsFunc(m.gone, func(d departed) bool { return d.ID == r.ID }) {
			continue
		}
		seen[r.ID] = true
		switch {
		case !r.Answers && !m.silent[r.ID]:
			m.addEvent(s.At, "warn", r.Name+" does not answer", "it is a member, and its figures did not come in time")
		case r.Answers && m.silent[r.ID]:
			m.addEvent(s.At, "ok", r.Name+" answers again", "")
		}
		m.silent[r.ID] = !r.Answers
	}
	for id := range m.silent { // order-free: deletions
		if !seen[id] {
			delete(m.silent, id)
		}
	}
}

// noteMoves adds events about finished moves of shards that the coordinators report.
func (m *model) noteMoves(c *figures.Cluster) {
	now := map[string]int{}
	for i := range c.Nodes {
		for _, t := range c.Nodes[i].Types {
			for _, g := range t.Moves {
				key := fmt.Sprint(c.Nodes[i].ID, t.Name, g.Began.UnixNano(), g.From)
				now[key] = g.Hosted
				if g.Hosted == g.Shards && m.moves[key] < g.Hosted && !m.at.IsZero() {
					from := ""
					if g.From != 0 {
						from = " from " + m.nameOfFormer(c.View, g.From)
					}
					m.addEvent(g.Began.Add(time.Duration(g.DoneMillis*1e6)), "info", fmt.Sprintf("%s of %s moved%s", countOf(g.Shards, "shard"), t.Name, from),
						fmt.Sprintf("%s · %s", g.Why, millisText(g.DoneMillis)))
				}
			}
		}
	}
	m.moves = now
}

// nameOfFormer returns the name of a member or former member.
func (m *model) nameOfFormer(v *gossip.View, id gossip.NodeID) string {
	if i := slices.IndexFunc(m.gone, func(d departed) bool { return d.ID == id }); i >= 0 {
		return m.gone[i].Name
	}
	return nameOf(v, id)
}

func countOf(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

func millisText(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// describeFailover describes what followed the last removal of a member that did not leave
// by itself; nil if there was none.
func (m *model) describeFailover(c *figures.Cluster) *failover {
	at := -1
	for i := range m.gone {
		if m.gone[i].why != whyLeft {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	d := &m.gone[at]
	f := &failover{Name: d.Name, At: d.at, Why: d.why}
	if d.evidence != "" {
		f.Why += " · " + d.evidence
	}
	var chosen, written, done float64
	for i := range c.Nodes {
		for _, t := range c.Nodes[i].Types {
			for _, g := range t.Moves {
				after := g.Began.Sub(d.at)
				takeover := g.Why == whyTakeover && after > -time.Second && after < 10*time.Second
				if g.From != d.ID && !takeover {
					continue
				}
				f.Types, f.Shards, f.Hosted = f.Types+1, f.Shards+g.Shards, f.Hosted+g.Hosted
				chosen, written, done = max(chosen, g.ChosenMillis), max(written, g.WrittenMillis), max(done, g.DoneMillis)
			}
		}
	}
	add := func(name string, ms float64) {
		if ms > 0 {
			f.Phases = append(f.Phases, phase{name, ms})
			f.Total += ms
		}
	}
	if f.Shards == 0 {
		f.Total = -1 // nothing had to move, or nothing has moved yet
		return f
	}
	f.Undetected = d.lost == 0
	add("detect and agree", float64(d.lost.Microseconds())/1000)
	add("choose homes", chosen)
	add("replicate the record", written-chosen)
	add("start the shards", done-written)
	return f
}

const (
	whyLeft     = "left"
	whyTakeover = "a new coordinator placed them" // placement.WhyTakeover
)

// nameOf returns a member's name, or its id if the name is not there.
func nameOf(v *gossip.View, id gossip.NodeID) string {
	if m := v.Member(id); m != nil {
		return m.Name
	}
	return id.String()
}
