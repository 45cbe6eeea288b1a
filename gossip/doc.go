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
