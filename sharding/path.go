package sharding

import "context"

// dataPath is a path without its types of messages.
type dataPath interface {
	describe() *typeInfo
	stats() Stats
}

// typeInfo is what the shell needs to know of a type.
type typeInfo struct {
	name, role string
	shards     uint32
	proxy      bool
}

// path moves the messages of one type.
type path[Req, Resp any] struct {
	typeInfo
}

func newPath[Req, Resp any](t Type[Req, Resp]) *path[Req, Resp] {
	return &path[Req, Resp]{typeInfo: typeInfo{name: t.Name, role: t.Role, shards: uint32(t.Shards), proxy: t.New == nil}}
}

func (p *path[Req, Resp]) describe() *typeInfo { return &p.typeInfo }

func (p *path[Req, Resp]) stats() Stats { return Stats{Type: p.name} }

func (p *path[Req, Resp]) tell(ctx context.Context, f Ref[Req, Resp], req Req) error {
	return ErrNotReady
}

func (p *path[Req, Resp]) ask(ctx context.Context, f Ref[Req, Resp], req Req, opts []AskOption) (resp Resp, err error) {
	return resp, ErrNotReady
}
