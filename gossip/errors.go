package gossip

import "errors"

// Errors of membership.
var (
	// ErrNotJoined: the node is in no view yet.
	ErrNotJoined = errors.New("gossip: not joined yet")
	// ErrRemoved: this incarnation has ended.
	ErrRemoved = errors.New("gossip: removed from the cluster")
	// ErrNoKeys: the node was started without SecretKeys, so there are none to rotate.
	ErrNoKeys = errors.New("gossip: started without SecretKeys")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("gossip: closed")
)
