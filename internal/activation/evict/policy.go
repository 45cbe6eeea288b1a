package evict

// Kind names a policy.
type Kind uint8

const (
	// LRU evicts the node that was used longest ago.
	LRU Kind = iota
	// TinyLFU admits a new node to a small window, and from there to the main area only
	// if it is used more often than the node that would have to go.
	TinyLFU
)

// Policy orders nodes for eviction. It never removes a node by itself: the owner calls Evict
// while Len is above its limit.
type Policy[V any] interface {
	// Add adds a node that is in no Policy.
	Add(n *Node[V])
	// Touch records a use of a node of this Policy.
	Touch(n *Node[V])
	// Remove removes a node of this Policy.
	Remove(n *Node[V])
	// Evict removes and returns the first node in the order; nil if there is none.
	Evict() *Node[V]
	// Len returns the number of nodes.
	Len() int
	// Resize sets a new limit. It removes no node.
	Resize(limit int)
}

// New returns an empty Policy for a limit of at least 1.
func New[V any](kind Kind, limit int) Policy[V] {
	if kind == TinyLFU {
		return newWTinyLFU[V](limit)
	}
	return &recency[V]{}
}

// recency is LRU.
type recency[V any] struct{ list list[V] }

func (r *recency[V]) Add(n *Node[V])    { r.list.pushFront(n) }
func (r *recency[V]) Touch(n *Node[V])  { r.list.unlink(n); r.list.pushFront(n) }
func (r *recency[V]) Remove(n *Node[V]) { r.list.unlink(n) }
func (r *recency[V]) Len() int          { return r.list.len }
func (r *recency[V]) Resize(int)        {}

func (r *recency[V]) Evict() *Node[V] {
	n := r.list.back
	if n != nil {
		r.list.unlink(n)
	}
	return n
}
