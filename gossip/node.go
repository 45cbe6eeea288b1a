package gossip

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// Errors of this package; the table of all of them stands in the package comment.
var (
	// ErrNotJoined: the node stands in no view yet.
	ErrNotJoined = errors.New("gossip: not joined yet")
	// ErrRemoved: this incarnation is over.
	ErrRemoved = errors.New("gossip: removed from the cluster")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("gossip: closed")
)

// Node is one incarnation of a node of a cluster. All methods are safe for
// concurrent use.
type Node struct {
	cfg  Config
	self view.Node
}

// Start checks cfg, opens the transport and begins to look for a cluster. It
// does not wait until one is found: WaitUp does. It fails with a *ConfigError,
// or when the address cannot be listened on. The context bounds starting only.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	return nil, errors.New("gossip: being written")
}

// Self returns what this node says of itself. Its address is the advertised one.
func (n *Node) Self() view.Node { return n.self }

// View returns the newest view known here, nil before the node is let in.
func (n *Node) View() *view.View { return nil }

// Lease returns the lease as last granted; it may have run out.
func (n *Node) Lease() view.Lease { return view.Lease{} }

// LeaseValid reports whether this node may run entities now. It costs one clock
// read and one atomic load.
func (n *Node) LeaseValid() bool { return false }

// Clock returns the clock that leases are measured with.
func (n *Node) Clock() clock.Clock { return n.cfg.Clock }

// Transport returns what frames are sent through.
func (n *Node) Transport() transport.Transport { return nil }

// Subscribe calls fn for every event from now on, in order, from one goroutine
// shared by all subscribers: a slow one delays the others, and nothing else. The
// current view, lease and end, as far as there are any, are told first. After
// cancel no further call begins; one under way may still finish. cancel may be
// called from fn.
func (n *Node) Subscribe(fn func(Event)) (cancel func()) { return func() {} }

// Yield says that this node, which coordinates something, gets no answer from
// subject: the leader ends the lease of the one of the two with fewer working
// links (DESIGN 4.4).
func (n *Node) Yield(subject view.NodeID) {}

// WaitUp blocks until this node is up in a view and holds a lease. It fails with
// the context's error, ErrRemoved or ErrClosed.
func (n *Node) WaitUp(ctx context.Context) error { return ErrClosed }

// Leave takes the node out of its view in order and returns when it is out; its
// lease has then ended. The transport stays open until Close. It fails with the
// context's error or ErrClosed; leaving goes on even so.
func (n *Node) Leave(ctx context.Context) error { return ErrClosed }

// Close ends the incarnation at once: the lease is withdrawn, peers are told that
// this process signs off (for at most 200 ms), connections and goroutines end.
// Idempotent; every call returns when all is done.
func (n *Node) Close() error { return nil }
