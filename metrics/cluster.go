package metrics

import (
	"runtime"
	"runtime/debug"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/membership"
)

// clusterSeries returns the series of this build, this node and its membership.
func clusterSeries() []series {
	version, revision := build()
	return []series{
		gauge("build_info", "Constant 1, labelled with the running version.", func(_ *scrape, emit emitter) {
			emit(1, version, revision, runtime.Version())
		}, "version", "revision", "goversion"),
		gauge("node_info", "Constant 1 on each node; joins node names to scraped instances.", func(s *scrape, emit emitter) {
			if s.running {
				emit(1, s.self.Name, s.self.AppVersion)
			}
		}, "node", "app_version"),
		gauge("ready", "1 when the node holds a lease and every type has met its coordinator; the same as /readyz.",
			func(s *scrape, emit emitter) { emit(boolean(s.ready)) }),
		gauge("cluster_members", "Members of the view that this node holds, by status.", func(s *scrape, emit emitter) {
			for _, st := range []gossip.Status{gossip.Joining, gossip.Up, gossip.Leaving} {
				emit(float64(s.gossip.Members[st]), st.String())
			}
		}, "state"),
		// An epoch as one sample would lose its low bits: float64 is exact up to 2^53.
		gauge("view_generation", "Generation of the view that this node holds: the upper 32 bits of its epoch.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.Epoch >> 32)) }),
		gauge("view_number", "Number of the view that this node holds in its generation: the lower 32 bits of its epoch.",
			func(s *scrape, emit emitter) { emit(float64(uint32(s.gossip.Epoch))) }),
		gauge("cluster_quorum", "1 while this node holds a valid lease, which rests on a majority of the view.",
			func(s *scrape, emit emitter) { emit(boolean(s.gossip.LeaseValid)) }),
		gauge("cluster_lease_seconds", "Seconds for which the lease of this node is still valid; 0 without one.",
			func(s *scrape, emit emitter) { emit(s.gossip.LeaseLeft.Seconds()) }),
		gauge("cluster_leader", "1 on the node that holds the leader's lease.",
			func(s *scrape, emit emitter) { emit(boolean(s.gossip.Leader)) }),
		counter("cluster_member_events_total", "Other members that joined, left by their own wish, and were removed.", func(s *scrape, emit emitter) {
			emit(float64(s.gossip.Joined), "joined")
			emit(float64(s.gossip.Left), "left")
			emit(float64(s.gossip.Removed), "removed")
		}, "event"),
		counter("cluster_views_total", "Views that this node has adopted.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.Views)) }),
		counter("cluster_lease_lost_total", "Leases that expired while this node was a member: all its entities paused.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.LeaseLost)) }),
		counter("cluster_quorum_lost_total", "Times when this node reached no quorum, or no quorum had a leader, for RemoveAfter.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.QuorumLost)) }),
		counter("cluster_abandons_total", "Times when this node had to drop all its entity instances.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.Abandons)) }),
		rare(counter("cluster_evidence_total", "Proofs that a peer's process has ended, by kind.", func(s *scrape, emit emitter) {
			for kind := membership.EvidenceGoodbye; kind <= membership.EvidenceRefused; kind++ {
				emit(float64(s.gossip.Evidence[kind]), kind.String())
			}
		}, "kind")),
		counter("cluster_evidence_withdrawn_total", "Proofs withdrawn because a message of the peer arrived later.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.EvidenceBack)) }),
		counter("cluster_suspicions_total", "memberlist's suspicions: of other nodes, and those of this node that it refuted.", func(s *scrape, emit emitter) {
			emit(float64(s.gossip.Suspicions), "raised")
			emit(float64(s.gossip.Refutations), "refuted")
		}, "outcome"),
		gauge("cluster_health_score", "memberlist's Lifeguard score; 0 is healthy.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.HealthScore)) }),
		counter("gossip_bytes_total", "Bytes of memberlist and of the view protocol.", func(s *scrape, emit emitter) {
			gossipTraffic(s, func(t membership.Traffic) uint64 { return t.Bytes }, emit)
		}, "direction", "channel"),
		counter("gossip_messages_total", "Messages of memberlist and of the view protocol.", func(s *scrape, emit emitter) {
			gossipTraffic(s, func(t membership.Traffic) uint64 { return t.Messages }, emit)
		}, "direction", "channel"),
		rare(counter("gossip_messages_dropped_total", "Membership messages that were dropped, by reason.", gossipDrops, "reason")),
		counter("cluster_events_missed_total", "Node events dropped because a subscriber was too slow.",
			func(s *scrape, emit emitter) { emit(float64(s.missed)) }),
		gauge("gossip_queue_length", "Events that wait for the membership core.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.InboxWaiting)) }),
	}
}

func gossipDrops(s *scrape, emit emitter) {
	emit(float64(s.gossip.FramesMalformed), "decode")
	emit(float64(s.gossip.FramesOverflow), "queue_full")
	emit(float64(s.gossip.BallotsStale), "stale_ballot")
	emit(float64(s.gossip.Impostures), "imposture")
	emit(float64(s.gossip.Strangers), "stranger")
	emit(float64(s.gossip.NonMembers), "not_a_member")
	emit(float64(s.gossip.PacketsDropped), "packet_queue_full")
	emit(float64(s.gossip.PacketsNotOurs), "packet_not_ours")
	emit(float64(s.gossip.Undecryptable), "undecryptable")
	emit(float64(s.gossip.PacketsForbidden), "packet_forbidden")
	emit(float64(s.gossip.PacketsFlood), "packet_flood")
	emit(float64(s.gossip.NamesRefused), "name_refused")
	emit(float64(s.gossip.StreamsRefused), "stream_refused")
	emit(float64(s.gossip.HintsDropped), "hint_dropped")
	emit(float64(s.gossip.SendFailed), "send_failed")
}

func gossipTraffic(s *scrape, of func(membership.Traffic) uint64, emit emitter) {
	g := &s.gossip
	for _, t := range []struct {
		direction, channel string
		traffic            membership.Traffic
	}{
		{"received", "packet", g.PacketIn}, {"sent", "packet", g.PacketOut},
		{"received", "stream", g.StreamIn}, {"sent", "stream", g.StreamOut},
		{"received", "view", g.ViewIn}, {"sent", "view", g.ViewOut},
	} {
		emit(float64(of(t.traffic)), t.direction, t.channel)
	}
}

func build() (version, revision string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", "unknown"
	}
	version, revision = info.Main.Version, "unknown"
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision
}

// contestSeries returns the series of other clusters with this cluster's name, and of
// differing keys.
func contestSeries() []series {
	return []series{
		gauge("gossip_secret_keys_differ", "Members with which this node shares no SecretKey, so gossip between them fails; above 0 only if SecretKeys differ by mistake.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.KeysDiffer)) }),
		gauge("cluster_foreign_clusters", "Other clusters with this cluster's name that sent messages recently; above 0 only if contact points are wrong.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.ForeignClusters)) }),
		rare(counter("cluster_contests_total", "Conflicts that began with another cluster of the same name; no node is ready during one.",
			func(s *scrape, emit emitter) { emit(float64(s.gossip.Contests)) })),
		rare(counter("cluster_entities_lost_total", "Entities of this node that were stopped because its cluster yielded to another with the same name.",
			func(s *scrape, emit emitter) { emit(float64(s.lost)) })),
		rare(counter("cluster_files_set_aside_total", "Files of durable keys that this node set aside because they belonged to another cluster with the same name.",
			func(s *scrape, emit emitter) { emit(float64(s.aside)) })),
	}
}
