// Package membership is the shell of the view core: it finds the other nodes of a cluster,
// agrees with them on views, holds this node's lease, detects crashes, and carries the frames of
// the layers above.
//
// A Node is one incarnation. It ends when it is removed from its cluster; the application
// then starts another one, with a new NodeID, at the same address.
//
// Everything that needs agreement rests on views (package gossip). The memberlist library
// provides discovery and hints, never agreement.
//
// # Partial partitions
//
// A member whose answers do not reach the leader is silent, even if other members have
// links with it: it loses its lease after L and its place after RemoveAfter. Two members
// that both reach the leader but not each other keep leases and places: each reports the
// other in its answers (Status shows the link as down), the leader collects the reports,
// and removes no member for a link that is not needed. When a coordinator has had no
// answer over it for RemoveAfter (Node.Yield), the leader counts: the one of the two with
// fewer working links, among equals the junior, is no longer granted leases and is
// removed RemoveAfter later. It returns as a new incarnation, and is removed again if the
// link is still broken and still needed.
//
// # Events
//
// Node.Subscribe delivers, in order: views (ViewChanged), joins and removals of members
// with reason and evidence (MemberJoined, MemberLeft, MemberRemoved), the leader
// (LeaderChanged), pauses and resumes of the lease (LeaseChanged), the quorum
// (QuorumLost, QuorumRegained), the states of connections (PeerUp, PeerLost, PeerDead,
// PeerAlive), and the end (Abandoned, Removed). Node.Handler shows the last of them. A
// subscriber must not block: one that may block receives its events from a Feed.
//
// # Errors
//
//	ErrSettings        Start refused the settings; every problem is named. Fix and start again.
//	gossip.ErrRemoved  this incarnation has ended. Start a new one.
//	ErrNoKeys          RotateKeys on a node without encryption. Restart it with SecretKeys.
//	ErrClosed          Close was called.
//
// Errors of sending are those of package transport.
package membership
