package main

import (
	"context"
	"fmt"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// peerageEntities uses a node of peerage with its default settings, but for time: nodes
// of a group of a known size start without waiting for further ones.
type peerageEntities struct {
	node   *peerage.Node
	region *sharding.Region[[]byte, []byte]
	refs   []sharding.Ref[[]byte, []byte]
}

type peerageEntity struct{ handler }

func (e *peerageEntity) Handle(_ *sharding.Context, b []byte) ([]byte, error) {
	return e.handle(b), nil
}

const homeRole = "home"

func openPeerage(ctx context.Context, s *settings) (entities, error) {
	cfg := peerage.Config{Cluster: "compare", Listen: s.listen, Join: s.peers, BootstrapExpect: len(s.peers)}
	if s.role != "caller" {
		cfg.Roles = []string{homeRole}
	}
	node, err := peerage.New(cfg)
	if err != nil {
		return nil, err
	}
	region, err := sharding.Register(node.Registry(), sharding.Type[[]byte, []byte]{
		Name: "entity", Role: homeRole,
		New: func(string) sharding.Entity[[]byte, []byte] {
			return &peerageEntity{handler{host: s.listen}}
		},
	})
	if err != nil {
		return nil, err
	}
	if err := node.Start(ctx); err != nil {
		return nil, err
	}
	p := &peerageEntities{node: node, region: region}
	for id := range remoteEntities {
		p.refs = append(p.refs, region.Ref(fmt.Sprint("entity-", id)))
	}
	return p, node.WaitReady(ctx)
}

func (p *peerageEntities) ask(ctx context.Context, id int, b []byte, limit time.Duration) ([]byte, error) {
	return p.refs[id].Ask(ctx, b, sharding.Within(limit))
}

func (p *peerageEntities) tell(ctx context.Context, id int, b []byte) error {
	return p.refs[id].Tell(ctx, b)
}

func (p *peerageEntities) close() { p.node.Close() }
