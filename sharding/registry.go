package sharding

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Registry holds the entity types of a program. It outlives the incarnations of the node:
// each new service serves the types of its Registry. The zero Registry is empty and ready
// to use. All methods are safe for concurrent use.
type Registry struct {
	mu    sync.Mutex
	types map[string]*registered
	// now is the service that serves the types, nil while there is none.
	now    *service
	closed bool
	// interceptors are those of the node, for all types.
	interceptors []Interceptor
}

// intercept sets the interceptors of the node, before the first type is added.
func (r *Registry) intercept(all []Interceptor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interceptors = slices.Clone(all)
}

// withOwn returns the interceptors of the node, then those of a type.
func (r *Registry) withOwn(typ []Interceptor) []Interceptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.interceptors, typ)
}

// Close marks that no further service will serve the types. From now on, Tell and Ask fail
// with ErrNodeStopping instead of waiting for one. Close the service first. It is
// idempotent.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, p := range r.types { // order-free: each is closed by itself
		p.Close()
	}
}

// Register adds a type and returns its Region. This node hosts the type if it has the
// type's role. Register fails if the type is invalid (*TypeError) or registered already. It
// may be called before or while a node runs.
func Register[Req, Resp any](r *Registry, t Type[Req, Resp]) (*Region[Req, Resp], error) {
	if t.New != nil {
		return addType(r, t, additions[Req, Resp]{})
	}
	wrong := []string{"New is nil: use RegisterProxy to only send"}
	if e := (*TypeError)(nil); errors.As(t.Validate(), &e) {
		wrong = append(wrong, e.Wrong...)
	}
	return nil, &TypeError{Type: t.Name, Wrong: wrong}
}

// RegisterProxy adds a type to which this node sends messages, but which it never hosts,
// whatever its roles. This node also does not coordinate the type while a hosting node can.
// New and the other hosting settings are ignored. Name, Role, Shards and the codecs must be
// those of the hosting nodes.
func RegisterProxy[Req, Resp any](r *Registry, t Type[Req, Resp]) (*Region[Req, Resp], error) {
	t.New = nil
	return addType(r, t, additions[Req, Resp]{})
}

// addType registers a type, with what a singleton or a daemon adds to it.
func addType[Req, Resp any](r *Registry, t Type[Req, Resp], with additions[Req, Resp]) (*Region[Req, Resp], error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	t.withDefaults()
	t.Interceptors = r.withOwn(t.Interceptors)
	region := newRegion(t, with)
	if err := r.addRegistered(region.reg); err != nil {
		return nil, err
	}
	return region, nil
}

func (r *Registry) addRegistered(p *registered) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := p.Name
	if _, taken := r.types[name]; taken {
		return &TypeError{Type: name, Wrong: []string{"is registered already"}}
	}
	if r.types == nil {
		r.types = map[string]*registered{}
	}
	r.types[name] = p
	if r.closed {
		p.Close()
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

// Local returns Region.Local of a type, and whether the type is registered: the shards that
// run on this node now, with the ids of their entities.
func (r *Registry) Local(typ string) ([]ShardStats, bool) {
	r.mu.Lock()
	p := r.types[typ]
	r.mu.Unlock()
	if p == nil {
		return nil, false
	}
	return p.localShards(), true
}

// attach makes s the service that serves the types.
func (r *Registry) attach(s *service) ([]*registered, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		return nil, fmt.Errorf("sharding: the registry is served already")
	}
	r.now = s
	paths := make([]*registered, 0, len(r.types))
	for _, p := range r.types {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b *registered) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return paths, nil
}

func (r *Registry) detach(s *service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == s {
		r.now = nil
	}
}
