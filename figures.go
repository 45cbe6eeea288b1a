package peerage

import (
	"cmp"
	"context"
	"encoding/json"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding"
)

// This file makes the figures that members report to each other, for package dashboard.

// Internal gives package dashboard the function that collects the figures of the cluster.
// Its type is internal, so it does nothing for applications.
func (n *Node) Internal(target any) (found bool) {
	switch t := target.(type) {
	case *func(context.Context) figures.Cluster:
		*t = reporter{n}.collectAll
	default:
		return false
	}
	return true
}

// reporter makes the figures of a node.
type reporter struct{ *Node }

// collectAll queries all members for their figures until ctx ends.
func (n reporter) collectAll(ctx context.Context) figures.Cluster {
	own := n.describeNode()
	c := figures.Cluster{Cluster: n.cfg.Cluster, Self: own.ID, At: n.cfg.WallClock(), Nodes: []figures.Node{own}}
	s := n.stack.Load()
	if s == nil {
		return c
	}
	v, answers, err := s.sharding.CollectFigures(ctx)
	if err != nil {
		return c // in no view yet: its own figures say so
	}
	c.View = v
	for i := range v.Members {
		var f figures.Node
		if id := v.Members[i].ID; id != own.ID && json.Unmarshal([]byte(answers[id]), &f) == nil && f.ID == id {
			c.Nodes = append(c.Nodes, f)
		}
	}
	return c
}

// encodeNode returns the node's figures as other members receive them.
func (n reporter) encodeNode() []byte {
	f := n.describeNode()
	text, err := json.Marshal(&f)
	if err != nil {
		n.cfg.Logger.Error("cannot encode the figures of this node, so dashboards show it as unreachable; please report", "err", err)
	}
	return text
}

// describeNode returns what this node reports about itself. It sends no message.
func (n reporter) describeNode() figures.Node {
	self := n.Self()
	f := figures.Node{
		ID: self.ID, Name: self.Name, Addr: self.Addr, Roles: self.Roles, Zone: self.Zone, AppVersion: self.AppVersion, Metadata: self.Metadata,
		Version: Version, At: n.cfg.WallClock(), UpSeconds: time.Since(n.made).Seconds(),
		Ready: n.Ready(), Draining: n.Draining(), State: "in no cluster",
	}
	f.MemoryBytes = runtimeBytes()
	if !f.Ready {
		f.NotReady = n.unready()
	}
	s := n.stack.Load()
	if s == nil {
		return f
	}
	m := s.gossip.Status()
	f.State, f.Leader, f.Contests = m.State, m.Protocol.Leader, len(s.contested())
	if m.View != nil {
		f.Epoch = m.View.Epoch
	}
	f.Lease = figures.Lease{
		Valid: m.Lease.Valid, Leader: m.Lease.Leader,
		LeftSeconds: max(0, m.Lease.Left.Seconds()), FullSeconds: s.gossip.Config().Lease.Seconds(),
	}
	durations := n.exporter.countDurations()
	f.Links, f.Types, f.Data = linkFigures(m.Links), s.typeFigures(durations.Asks), s.dataFigures(durations)
	return f
}

// runtimeBytes returns the memory that the Go runtime has obtained.
func runtimeBytes() uint64 {
	read := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}

// linkFigures returns the links to members, and those to other nodes that were lost within
// the last minute.
func linkFigures(links []membership.LinkStatus) (out []figures.Link) {
	const recent = time.Minute
	for _, l := range links {
		if l.Member || l.DownFor > 0 && l.DownFor < recent {
			out = append(out, figures.Link{
				Node: l.Node, Out: slices.Contains(l.Out, "control"), In: slices.Contains(l.In, "control"),
				Dead: l.Dead, DownSeconds: l.DownFor.Seconds(),
			})
		}
	}
	return out
}

// typeFigures returns the figures of all entity types, sorted by name. asks are the durations of
// their asks.
func (s *stack) typeFigures(asks map[string][]uint64) (out []figures.Type) {
	for _, t := range s.sharding.Status() {
		f := figures.Type{Name: t.Type, Role: t.Role, Unregistered: t.Unregistered, Refused: t.Refused, ShardsTotal: len(t.Shards)}
		if st, ok := s.node.registry.Stats(t.Type); ok {
			addStats(&f, &st)
		}
		if f.AskBuckets = asks[t.Type]; f.Coordinating {
			addMoves(&f, &t)
		}
		out = append(out, f)
	}
	return out
}

// addStats adds the counters and gauges of a type.
func addStats(f *figures.Type, st *sharding.Stats) {
	f.Hosting, f.Coordinating = st.Hosting, st.Coordinating
	f.Shards, f.Entities, f.StandbyShards, f.StateBytes = st.Shards, st.Entities, st.StandbyShards, st.StateBytes
	f.Asks, f.Buffered, f.Waiting = st.Asks, st.Buffered, st.HeldUp+st.Parked
	f.OldestHandlerSeconds = st.OldestHandler.Seconds()
	f.Sent, f.Handled, f.Redirected = st.SentLocal+st.SentRemote, st.Handled, st.Redirected
	for _, n := range st.Dropped {
		f.Dropped += n
	}
	f.HandoffsIn, f.HandoffsOut, f.Forced = st.HandoffsIn, st.HandoffsOut, st.Forced
	f.Duplicates, f.StateLosses, f.StatesLost = st.Duplicates, st.StateLosses, st.StatesLost
	f.RememberedWaiting, f.RememberedFailed = st.Remembered.Waiting, st.Remembered.Failed
	f.Unconfirmed, f.Resends, f.GivenUp = st.Reliable.Unconfirmed, st.Reliable.Resends, st.Reliable.GivenUp
}

// addMoves adds what the coordinator of a type reports.
func addMoves(f *figures.Type, t *placement.TypeStatus) {
	for _, m := range t.Moves {
		after := func(at time.Time) float64 {
			if at.IsZero() {
				return -1
			}
			return float64(at.Sub(m.Began).Microseconds()) / 1000
		}
		f.Moves = append(f.Moves, figures.Moves{
			From: m.From, Why: m.Why, Shards: m.Shards, Hosted: m.Hosted, Began: m.Began,
			ChosenMillis: after(m.Chosen), WrittenMillis: after(m.Written), DoneMillis: after(m.Done),
		})
	}
	for _, shard := range t.Open[:min(len(t.Open), figures.OpenMax)] {
		f.Open = append(f.Open, uint32(shard))
	}
}

// dataFigures returns the figures of the application's data, by role.
func (s *stack) dataFigures(durations figures.Durations) (out []figures.DataSet) {
	ctx, cancel := context.WithTimeout(context.Background(), dataPatience)
	defer cancel()
	for _, role := range s.roles() {
		st, peers, err := s.replicators[role].Status(ctx)
		if err != nil {
			continue // closed, or too slow: the page shows it as missing
		}
		f := figures.DataSet{
			Role: role, Keys: st.Keys - st.Tombstones, Tombstones: st.Tombstones, Bytes: st.Bytes, Pending: st.Pending, Lag: st.LagMax,
			Settled: st.Settled, DurableFailing: st.DurableFailing, Updates: st.Updates, Reads: st.Reads, QuorumErrors: st.QuorumErrors,
			WriteBuckets: durations.MajorityWrites[role], ReadBuckets: durations.MajorityReads[role],
		}
		if f.Lag > 0 && len(peers) > 0 {
			f.Behind = slices.MaxFunc(peers, func(a, b figures.Replica) int { return cmp.Compare(a.Lag, b.Lag) }).ID
		}
		out = append(out, f)
	}
	return out
}

// dataPatience bounds the wait for the replicators' figures.
const dataPatience = 500 * time.Millisecond
