package replicator

import (
	"context"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/view"
)

// Replicator holds the keys of one role on one node. All methods are safe for
// concurrent use.
type Replicator struct {
	cfg Config
}

// Option changes one request.
type Option func(*request)

type request struct {
	fence Fence
}

// WithFence makes replicas that know a higher term of the group refuse the
// request; a fenced Get raises the term where it is answered. A refused request
// returns *FencedError.
func WithFence(f Fence) Option { return func(r *request) { r.fence = f } }

// New starts a replicator. It ends with Close.
func New(cfg Config) *Replicator { return &Replicator{cfg: cfg} }

// Self returns the incarnation whose dots and counters the replicator writes.
func (r *Replicator) Self() view.NodeID { return r.cfg.Self }

// HandleFrame takes the payload of a frame, without the role. It never blocks:
// when the inbox is full the frame is dropped and counted, and its sender
// repeats it. The payload is copied.
func (r *Replicator) HandleFrame(from view.NodeID, payload []byte) {}

// SetView hands over a newer view; older ones are ignored.
func (r *Replicator) SetView(v *view.View) {}

// PeerLost says that the connection to a peer broke.
func (r *Replicator) PeerLost(id view.NodeID) {}

// PeerUp says that a peer's connection stands.
func (r *Replicator) PeerUp(id view.NodeID) {}

// Update changes the keys of ops, all or none, here first and then at as many
// replicas as level asks for. It blocks until the level is fulfilled, refused,
// or given up at the context's deadline; a nil error means fulfilled. The plans
// run on the replicator's goroutine: they must be quick and must not call it.
func (r *Replicator) Update(ctx context.Context, ops []Op, level Level, opts ...Option) error {
	return ErrClosed
}

// Get returns the values of keys as of level, nil for one that does not exist.
// What other replicas know beyond this one is merged here, and replicas that
// lack something get it, before Get returns: of two reads at majority, one after
// the other, the second never sees less. The values are copies.
func (r *Replicator) Get(ctx context.Context, keys []string, level Level, opts ...Option) ([]crdt.Value, error) {
	return nil, ErrClosed
}

// View calls f with the local value of key, nil if there is none, on the
// replicator's goroutine: no copy is made. F must be quick, must not change or
// keep the value, and must not call the replicator.
func (r *Replicator) View(ctx context.Context, key string, f func(crdt.Value)) error {
	return ErrClosed
}

// Keys returns the names of all keys that begin with prefix, sorted.
func (r *Replicator) Keys(ctx context.Context, prefix string) ([]string, error) {
	return nil, ErrClosed
}

// Subscribe calls f for the key named pattern, or for every key that begins with
// it when it ends in "*": first with each value that exists now, then after
// changes. Changes that come while f runs are coalesced: f sees the newest state,
// never an older one after a newer one, and a slow f holds nothing up. F runs on
// the subscription's own goroutine, one call at a time. cancel ends the
// subscription and does not wait for a running f.
func (r *Replicator) Subscribe(pattern string, f func(Change)) (cancel func()) { return func() {} }

// Stats returns a snapshot.
func (r *Replicator) Stats() Stats { return Stats{} }

// Close ends the replicator and its subscriptions at once: requests under way
// return ErrClosed. It waits until its goroutines have ended, except for a
// subscriber's function that does not return. Idempotent.
func (r *Replicator) Close() error { return nil }
