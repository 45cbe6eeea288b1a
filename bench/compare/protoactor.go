package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/clusterproviders/automanaged"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// protoEntities uses virtual actors of protoactor-go: the provider of clusters that needs no
// store, placement by a hash over the members, and its own serializer, protocol buffers.
type protoEntities struct {
	system  *actor.ActorSystem
	cluster *cluster.Cluster
}

const (
	protoKind = "entity"
	// protoPoll is how often members look for each other: the default of the provider.
	protoPoll = 2 * time.Second
)

type protoEntity struct{ handler }

func (e *protoEntity) Receive(c actor.Context) {
	m, ok := c.Message().(*wrapperspb.BytesValue)
	if !ok {
		return
	}
	if answer := e.handle(m.GetValue()); answer != nil {
		c.Respond(wrapperspb.Bytes(answer))
	}
}

func openProtoactor(ctx context.Context, s *settings) (entities, error) {
	host, port, err := splitAddr(s.listen)
	if err != nil {
		return nil, err
	}
	var aux int
	for i, peer := range s.peers {
		if peer == s.listen {
			if _, aux, err = splitAddr(s.aux[i]); err != nil {
				return nil, err
			}
		}
	}
	quiet := func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	system := actor.NewActorSystemWithConfig(actor.Configure(actor.WithLoggerFactory(quiet)))
	kind := cluster.NewKind(protoKind, actor.PropsFromProducer(func() actor.Actor {
		return &protoEntity{handler{host: s.listen}}
	}))
	options := []cluster.ConfigOption{cluster.WithRequestTimeout(askPatience)}
	if s.role != "caller" {
		options = append(options, cluster.WithKinds(kind))
	}
	provider := automanaged.NewWithConfig(protoPoll, aux, s.aux...)
	c := cluster.New(system, cluster.Configure("compare", provider, disthash.New(), remote.Configure(host, port), options...))
	if s.role == "caller" {
		c.StartClient()
	} else {
		c.StartMember()
	}
	if s.role == "member" {
		// An entity that is asked before all members are known stays where it began.
		if err := waitForMembers(ctx, c, len(s.peers)); err != nil {
			return nil, err
		}
	}
	return &protoEntities{system: system, cluster: c}, nil
}

// membersPatience is how long the members may take to find each other.
const membersPatience = time.Minute

// waitForMembers waits until the cluster knows so many members.
func waitForMembers(ctx context.Context, c *cluster.Cluster, n int) error {
	ctx, cancel := context.WithTimeout(ctx, membersPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for c.MemberList.Length() < n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d members: %w", c.MemberList.Length(), n, ctx.Err())
		}
	}
	return nil
}

func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(p)
	return host, port, err
}

func protoID(id int) string { return fmt.Sprint("entity-", id) }

func (p *protoEntities) ask(_ context.Context, id int, b []byte, limit time.Duration) ([]byte, error) {
	got, err := p.cluster.Request(protoID(id), protoKind, wrapperspb.Bytes(b), cluster.WithTimeout(limit))
	if err != nil {
		return nil, err
	}
	m, ok := got.(*wrapperspb.BytesValue)
	if !ok {
		return nil, errNoAnswer
	}
	return m.GetValue(), nil
}

func (p *protoEntities) tell(_ context.Context, id int, b []byte) error {
	name := protoID(id)
	pid, ok := p.cluster.PidCache.Get(name, protoKind) // as Request does
	if !ok {
		if pid = p.cluster.Get(name, protoKind); pid == nil {
			return errNoAnswer
		}
	}
	p.system.Root.Send(pid, wrapperspb.Bytes(b))
	return nil
}

func (p *protoEntities) close() { p.cluster.Shutdown(false) }
