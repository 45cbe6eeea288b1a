package sharding

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Registry holds the entity types of a program. It outlives the incarnations of
// the node: each new Sharding serves the types of its Registry. The zero Registry
// is empty and ready. All methods are safe for concurrent use.
type Registry struct {
	mu    sync.Mutex
	types map[string]dataPath
	// now is the Sharding that serves the types, nil while there is none.
	now    *Sharding
	closed bool
}

// Close says that no further Sharding will serve the types: Tell and Ask fail
// with ErrNodeStopping from now on instead of waiting for one. Close the Sharding
// first. Idempotent.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, p := range r.types { // order-free: each is closed by itself
		p.base().close()
	}
}

// Register adds a type that this node hosts if it carries the type's role, and
// returns its Region. It fails on a type that is wrong (*TypeError) or registered
// already. It may be called before or while a node runs.
func Register[Req, Resp any](r *Registry, t Type[Req, Resp]) (*Region[Req, Resp], error) {
	if t.New != nil {
		return add(r, t)
	}
	wrong := []string{"New is nil: use StartProxy to only send"}
	if e := (*TypeError)(nil); errors.As(t.Validate(), &e) {
		wrong = append(wrong, e.Wrong...)
	}
	return nil, &TypeError{Type: t.Name, Wrong: wrong}
}

// StartProxy adds a type that this node sends messages to and never hosts,
// whatever its roles; nor does it coordinate the type where a node that hosts it can.
// New and what else concerns hosting is ignored; Name, Role, Shards and the codecs must
// be those of the hosting nodes.
func StartProxy[Req, Resp any](r *Registry, t Type[Req, Resp]) (*Region[Req, Resp], error) {
	t.New = nil
	return add(r, t)
}

func add[Req, Resp any](r *Registry, t Type[Req, Resp]) (*Region[Req, Resp], error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	t.withDefaults()
	p := newPath(t)
	if err := r.add(p); err != nil {
		return nil, err
	}
	return &Region[Req, Resp]{p: p}, nil
}

func (r *Registry) add(p dataPath) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := p.describe().name
	if _, taken := r.types[name]; taken {
		return &TypeError{Type: name, Wrong: []string{"is registered already"}}
	}
	if r.types == nil {
		r.types = map[string]dataPath{}
	}
	r.types[name] = p
	if r.closed {
		p.base().close()
	}
	if r.now != nil {
		r.now.serve(p)
	}
	return nil
}

// Types returns the names of the registered types, sorted.
func (r *Registry) Types() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.types))
	for n := range r.types {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Stats returns the counters and gauges of a type, and whether it is registered.
// Counters grow over all incarnations of the node.
func (r *Registry) Stats(typ string) (Stats, bool) {
	r.mu.Lock()
	p := r.types[typ]
	r.mu.Unlock()
	if p == nil {
		return Stats{}, false
	}
	return p.stats(), true
}

// attach makes s the Sharding that serves the types.
func (r *Registry) attach(s *Sharding) ([]dataPath, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		return nil, fmt.Errorf("sharding: the registry is served already")
	}
	r.now = s
	paths := make([]dataPath, 0, len(r.types))
	for _, p := range r.types {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b dataPath) int {
		if a.describe().name < b.describe().name {
			return -1
		}
		return 1
	})
	return paths, nil
}

func (r *Registry) detach(s *Sharding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == s {
		r.now = nil
	}
}
