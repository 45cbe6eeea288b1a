// Package gossip is membership: it finds the other nodes of a cluster, agrees
// with them on views, holds this node's lease, notices crashes, and carries the
// frames of the layers above. DESIGN section 4 says why it works as it does.
//
// A Node is one incarnation. When it is removed from its cluster it is over, and
// whoever started it starts another one, with a new NodeID, at the same address.
//
// Everything that needs agreement rests on views (package view). The memberlist
// library inside gives discovery and hints, never agreement.
//
// # Links that are broken between some
//
// A member that the leader cannot hear is silent, whoever else hears it: it loses its
// lease after L and its place after RemoveAfter. Two members that both reach the
// leader but not each other keep leases and places: each reports the other in its
// answers (Status shows the link as down), the leader collects the reports, and nobody
// goes for a link that nobody needs. When a coordinator has had no answer over it for
// RemoveAfter (Node.Yield), the leader counts: the one of the two with fewer working
// links, among equals the junior, is granted no lease any more and is out RemoveAfter
// later. It comes back as a new incarnation, and goes again if the link is still
// broken and still needed.
//
// # Events
//
// Node.Subscribe tells, in order: views (ViewChanged), members that come and go with the
// reason and the evidence (MemberJoined, MemberLeft, MemberRemoved), the leader
// (LeaderChanged), the lease as it pauses and resumes (LeaseChanged), the quorum
// (QuorumLost, QuorumRegained), what became of connections (PeerUp, PeerLost, PeerDead,
// PeerAlive), and the end (Abandoned, Removed). Node.Handler shows the last of them.
// A subscriber must not block: one that may gets its events from a Feed.
//
// # Errors
//
//	*ConfigError   Start refused the settings; every problem is named. Fix and start again.
//	ErrNotJoined   the node stands in no view yet. Retry after WaitUp.
//	ErrRemoved     this incarnation is over. Start a new one.
//	ErrNoKeys      RotateKeys on a node without encryption. Restart it with SecretKeys.
//	ErrClosed      Close was called.
//
// Errors of sending are those of package transport.
package gossip
