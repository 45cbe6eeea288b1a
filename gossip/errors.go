package gossip

import "errors"

// ErrRemoved is the error of Node.Drain of package peerage if the cluster has removed this
// incarnation of the node.
var ErrRemoved = errors.New("gossip: removed from the cluster")
