package sharding

import (
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/transport"
)

// Internal gives package peerage the functions that serve the types of the Registry. It is not
// for applications: nearly all of their types are internal.
func (r *Registry) Internal(target any) (found bool) {
	switch t := target.(type) {
	case *func(placement.Config, figures.ShardingObserver) (any, error):
		*t = func(cfg placement.Config, o figures.ShardingObserver) (any, error) { return r.startService(cfg, o) }
	case *func([]byte) (transport.Flow, bool):
		*t = frames.ClassifyFrame
	case *func([]Interceptor):
		*t = r.intercept
	default:
		return false
	}
	return true
}
