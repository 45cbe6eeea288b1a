package replicator

import "time"

// Fence bars writers that have been replaced. The zero Fence is none.
type Fence struct {
	// Group names the subject of the term, for example a coordinator.
	Group string
	// Term grows with every holder of the office. It is at most an epoch of a view: a
	// replica rejects a term whose generation (Term>>32) is more than
	// gossip.GenerationsAhead above that of its view, and a request with it fails with
	// ErrLimit.
	Term uint64
}

// Zero reports whether there is no fence.
func (f Fence) Zero() bool { return f.Group == "" && f.Term == 0 }

// Option is a setting of one request.
type Option struct{ fence Fence }

// WithFence makes replicas that have a higher term of the group reject the request, which
// then fails with ErrFenced. A fenced Get raises the term at the replicas that answer it.
func WithFence(f Fence) Option { return Option{fence: f} }

// FenceOf returns the fence of a request with opts, the last one if there are several.
func FenceOf(opts []Option) (f Fence) {
	for _, o := range opts {
		f = o.fence
	}
	return f
}

// Expiry deletes the keys that begin with Prefix if no write has changed them for After.
// The most senior voter of the role measures this time on its own clock, from the newest
// change that it has received, or from the time at which it received the key. So After
// begins again when the role changes its most senior voter, and may be doubled by one that
// has lost contact with the other members. Expiry is a deletion like any other: it wins over
// a concurrent update of the key.
type Expiry struct {
	// Prefix selects the keys that begin with it; of several prefixes, the longest applies.
	Prefix string
	// After is how long no write may have changed a key before it is deleted. It must not be
	// negative. 0 excepts the keys from the rules with shorter prefixes.
	After time.Duration
}
