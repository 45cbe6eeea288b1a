package membership

import (
	"github.com/peerage-go/peerage/gossip"
	"sync/atomic"
)

// traffic is a live Traffic.
type traffic struct{ messages, bytes atomic.Uint64 }

func (t *traffic) countMessage(n int) {
	t.messages.Add(1)
	t.bytes.Add(uint64(max(n, 0)))
}

func (t *traffic) loadTraffic() gossip.Traffic {
	return gossip.Traffic{Messages: t.messages.Load(), Bytes: t.bytes.Load()}
}

// counters are the live ones, shared by the parts of a node.
type counters struct {
	views, abandons, leaseLost, quorumLost   atomic.Uint64
	evidence                                 [gossip.EvidenceRefused + 1]atomic.Uint64
	evidenceBack                             atomic.Uint64
	suspicions, refutations, undecryptable   atomic.Uint64
	discovered, faded                        atomic.Uint64
	packetIn, packetOut, streamIn, streamOut traffic
	packetsDropped, packetsNotOurs           atomic.Uint64
	packetsForbidden, packetsFlood           atomic.Uint64
	namesRefused, streamsRefused             atomic.Uint64
	hintsDropped                             atomic.Uint64
	viewIn, viewOut                          traffic
	malformed, overflow, sendFailed          atomic.Uint64
	stale, impostures, strangers, nonMembers atomic.Uint64
	probes, probesFailed, refused            atomic.Uint64
	steps, contests                          atomic.Uint64
	foreign, keysDiffer                      atomic.Int64
}

// Stats returns the present counters. It costs some microseconds and blocks no other
// call.
func (n *Node) Stats() gossip.Stats {
	c := &n.counters
	s := gossip.Stats{
		Views: c.views.Load(), Abandons: c.abandons.Load(), LeaseLost: c.leaseLost.Load(), QuorumLost: c.quorumLost.Load(),
		Evidence: map[gossip.EvidenceKind]uint64{}, EvidenceBack: c.evidenceBack.Load(),
		Suspicions: c.suspicions.Load(), Refutations: c.refutations.Load(),
		Undecryptable: c.undecryptable.Load(),
		Discovered:    c.discovered.Load(), Faded: c.faded.Load(),
		PacketIn: c.packetIn.loadTraffic(), PacketOut: c.packetOut.loadTraffic(),
		StreamIn: c.streamIn.loadTraffic(), StreamOut: c.streamOut.loadTraffic(),
		PacketsDropped: c.packetsDropped.Load(), PacketsNotOurs: c.packetsNotOurs.Load(),
		PacketsForbidden: c.packetsForbidden.Load(), PacketsFlood: c.packetsFlood.Load(),
		NamesRefused: c.namesRefused.Load(), StreamsRefused: c.streamsRefused.Load(), HintsDropped: c.hintsDropped.Load(),
		ViewIn: c.viewIn.loadTraffic(), ViewOut: c.viewOut.loadTraffic(),
		FramesMalformed: c.malformed.Load(), FramesOverflow: c.overflow.Load(), SendFailed: c.sendFailed.Load(),
		BallotsStale: c.stale.Load(), Impostures: c.impostures.Load(), Strangers: c.strangers.Load(), NonMembers: c.nonMembers.Load(),
		Probes: c.probes.Load(), ProbesFailed: c.probesFailed.Load(), Refusals: c.refused.Load(),
		Steps: c.steps.Load(), ForeignClusters: int(c.foreign.Load()), KeysDiffer: int(c.keysDiffer.Load()), Contests: c.contests.Load(),
	}
	for k := gossip.EvidenceGoodbye; k <= gossip.EvidenceRefused; k++ {
		s.Evidence[k] = c.evidence[k].Load()
	}
	if v := n.View(); v != nil {
		s.Epoch = uint64(v.Epoch)
		for i := range v.Members {
			s.Members[0]++
			if st := int(v.Members[i].Status); st < len(s.Members) {
				s.Members[st]++
			}
		}
	}
	s.LeaseValid = n.LeaseValid()
	s.Leader = s.LeaseValid && n.Lease().Leader
	s.EventsDelivered, s.EventsCoalesced, s.EventsWaiting = n.events.queueCounts()
	s.InboxWaiting, s.InboxMax = n.inbox.queueCounts()
	if n.discovery != nil {
		s.HealthScore = n.discovery.health()
	}
	return s
}
