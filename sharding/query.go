package sharding

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/placement"
)

// ErrNoAnswer reports that a node did not answer a query in time.
var ErrNoAnswer error = failure.NoAnswer

// ClusterStats holds the state of one type, as each member of the cluster reported it for
// itself at about the same time.
type ClusterStats struct {
	Type string `json:"type"`
	// View is the view whose members were queried.
	View gossip.Epoch `json:"view"`
	// Nodes are the members that run the type or send to it, most senior first.
	Nodes []NodeStats `json:"nodes"`
	// Failed are the members that did not answer in time.
	Failed []NodeFailure `json:"failed,omitempty"`
	// Unregistered are members of the type's role that do not run it.
	Unregistered []gossip.NodeID `json:"unregistered,omitempty"`
}

// NodeStats is one node's part of a ClusterStats.
type NodeStats struct {
	Node gossip.NodeID `json:"node"`
	Name string        `json:"name"`
	// Hosts is false for proxies.
	Hosts bool `json:"hosts"`
	// Coordinating is set for the node that places the shards.
	Coordinating bool   `json:"coordinating"`
	Capacity     uint32 `json:"capacity"`
	// Buffered is the number of messages that wait there for a home.
	Buffered uint64 `json:"buffered"`
	// Shards are those that run there, by number.
	Shards []ShardStats `json:"shards"`
}

// ShardStats is one shard that runs, with the number of its entities.
type ShardStats struct {
	Shard    ShardID `json:"shard"`
	Token    Token   `json:"token"`
	Entities int     `json:"entities"`
	// IDs are the ids of the entities, sorted: running, at rest or ending. Only Region.Local
	// and Registry.Local set them.
	IDs []string `json:"ids,omitempty"`
}

// NodeFailure is a node that is missing from a result.
type NodeFailure struct {
	Node gossip.NodeID
	Name string
	Err  error
	// Shards are the shards of that node, according to the querying node.
	Shards []ShardID
}

// MarshalJSON encodes the error as its text.
func (f NodeFailure) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Node   gossip.NodeID `json:"node"`
		Name   string        `json:"name"`
		Error  string        `json:"error"`
		Shards []ShardID     `json:"shards"`
	}{f.Node, f.Name, f.Err.Error(), f.Shards})
}

// Totals returns the numbers of shards and entities on the nodes that answered.
func (c *ClusterStats) Totals() (shards, entities int) {
	for i := range c.Nodes {
		shards += len(c.Nodes[i].Shards)
		for _, s := range c.Nodes[i].Shards {
			entities += s.Entities
		}
	}
	return shards, entities
}

// Cluster queries all members of the view about a type: the regions, their shards and the
// numbers of entities in them. Nodes that do not answer until ctx ends, or for 3 s if it
// has no deadline, are listed in Failed with their shards; the rest of the result is
// complete. It waits no longer than a moment for disconnected nodes.
//
// It fails with ErrUnknownType, ErrNotReady, and with ErrNodeStopping if the node is
// closed. It may be called on every node that registers the type, and changes nothing.
func (r *Registry) Cluster(ctx context.Context, typ string) (_ ClusterStats, err error) {
	defer setGroup(&err)
	s, p, err := r.serving(typ)
	if err != nil {
		return ClusterStats{}, err
	}
	c := ClusterStats{Type: typ}
	survey, err := s.drivers.Survey(ctx, &protocol.Query{Head: protocol.Head{Type: typ}})
	if err != nil {
		return c, err
	}
	c.View, c.Failed = survey.View.Epoch, missing(survey, p)
	for i := range survey.View.Members {
		m := &survey.View.Members[i]
		a := survey.Answers[m.ID]
		switch {
		case a == nil:
		case a.Known:
			c.Nodes = append(c.Nodes, nodeStats(m, a))
		case m.HasRole(p.place.Role):
			c.Unregistered = append(c.Unregistered, m.ID)
		}
	}
	return c, nil
}

func nodeStats(m *gossip.Member, a *protocol.Answer) NodeStats {
	n := NodeStats{
		Node: m.ID, Name: m.Name, Hosts: a.Hosts, Coordinating: a.Office,
		Capacity: max(a.Settings.Capacity, 1), Buffered: a.Buffered,
	}
	for _, s := range a.Shards {
		n.Shards = append(n.Shards, ShardStats{Shard: s.Shard, Token: Token(s.Token), Entities: int(s.Entities)})
	}
	return n
}

// Location is the home of an entity's shard, and whether the entity lives there.
type Location struct {
	Shard ShardID       `json:"shard"`
	Node  gossip.NodeID `json:"node"`
	Name  string        `json:"name"`
	Token Token         `json:"token"`
	// ID is the entity's id.
	ID string `json:"id"`
	// Lives is set if the home has an instance of the entity, running or at rest. If not,
	// the next message starts one there, and the fields below are zero.
	Lives bool `json:"lives"`
	// Age is how long the instance has existed, to within a second.
	Age time.Duration `json:"age_ns"`
	// Waiting is the number of messages that the instance has not begun to handle. Running
	// is set while it handles one or has one to handle.
	Waiting int  `json:"waiting"`
	Running bool `json:"running"`
	// StateBytes is the size of the entity's replicated state, 0 without one (Type.State).
	StateBytes int `json:"state_bytes"`
}

// Where returns the node on which the shard of an entity runs, and whether the entity
// lives. It queries all members. When it returns, the shard may already have moved, or the
// entity ended.
//
// It fails with ErrNoAnswer if this node has the shard's home on record, and that node does
// not answer: the Location then names that node, without a token. It fails with ErrNoHome
// if no answer names a node that runs the shard: the error then names the nodes that did not
// answer.
// Where gives the shard no home, but a message to the entity would. Otherwise it fails as
// Cluster does, and with ErrBadID and ErrNoShard.
func (r *Registry) Where(ctx context.Context, typ, id string) (_ Location, err error) {
	defer setGroup(&err)
	s, p, err := r.serving(typ)
	if err != nil {
		return Location{}, err
	}
	if id == "" || len(id) > p.IDBytes {
		return Location{}, ErrBadID
	}
	at := Location{Shard: p.Extract.ShardOf(id), ID: id}
	if at.Shard == endpoint.NoShard {
		return Location{}, endpoint.NoShardFor(id)
	}
	survey, err := s.drivers.Survey(ctx, &protocol.Query{Head: protocol.Head{Type: typ}, Shard: at.Shard, HasShard: true, Entity: id})
	if err != nil {
		return at, err
	}
	home, token, _ := survey.Home()
	if home == nil {
		return nowhere(at, missing(survey, p))
	}
	at.Node, at.Name, at.Token = home.ID, home.Name, Token(token)
	for _, e := range survey.Answers[home.ID].Entities {
		at.addInstance(&e)
	}
	return at, nil
}

// Passivate ends the instance of an entity, on whichever node it lives, as Context.Passivate
// does: after the messages that it is handling OnStop runs, and the next message starts a new
// instance. A remembered entity is forgotten. It is meant for operators. The Location is the one
// where the instance lived; without an instance, Lives is false, and nothing changes.
//
// When it returns, the order to end the instance was sent, but it may still live. The order is
// sent once: if the connection breaks or the shard moves meanwhile, the instance goes on. It
// fails as Where does, and with ErrNodeLost if the order could not be sent.
func (r *Registry) Passivate(ctx context.Context, typ, id string) (_ Location, err error) {
	at, err := r.Where(ctx, typ, id)
	if err != nil || !at.Lives {
		return at, err
	}
	defer setGroup(&err)
	_, p, err := r.serving(typ)
	if err == nil {
		err = p.Dismiss(at.Node, at.Shard, protocol.Token(at.Token), id)
	}
	return at, err
}

// addInstance adds what the home reports about the entity's instance.
func (l *Location) addInstance(e *protocol.EntityState) {
	l.ID, l.Shard, l.Lives, l.Running = e.ID, e.Shard, true, e.Running
	l.Age, l.Waiting, l.StateBytes = time.Duration(min(e.Age, math.MaxInt32))*time.Second, int(e.Waiting), int(e.StateBytes)
}

// SearchMax is the number of entities that Registry.Search returns at most from one node.
const SearchMax = protocol.EntitiesMax

// Search returns live entities of a type whose id contains text, sorted by id: the first
// SearchMax of each node. "" finds any. It queries all members, and each compares the ids
// of all its instances, so it is meant for operators. No code of entities runs. failed lists
// the members that did not answer in time. For time-outs and errors see Cluster; it also
// fails with ErrBadID if text is longer than an id can be.
func (r *Registry) Search(ctx context.Context, typ, text string) (found []Location, failed []NodeFailure, err error) {
	defer setGroup(&err)
	s, p, err := r.serving(typ)
	if err != nil {
		return nil, nil, err
	}
	if len(text) > p.IDBytes {
		return nil, nil, ErrBadID
	}
	survey, err := s.drivers.Survey(ctx, &protocol.Query{Head: protocol.Head{Type: typ}, Entity: text, Search: true})
	if err != nil {
		return nil, nil, err
	}
	for i := range survey.View.Members {
		m := &survey.View.Members[i]
		if a := survey.Answers[m.ID]; a != nil {
			for _, e := range a.Entities {
				at := Location{Node: m.ID, Name: m.Name}
				at.addInstance(&e)
				found = append(found, at)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Location) int { return cmp.Compare(a.ID, b.ID) })
	return found, missing(survey, p), nil
}

// nowhere is the answer of Where when no node reports the shard.
func nowhere(at Location, failed []NodeFailure) (Location, error) {
	err := fmt.Errorf("%w: shard %v", ErrNoHome, at.Shard)
	if len(failed) == 0 {
		return at, fmt.Errorf("%w; a message to one of its ids gives it one", err)
	}
	for _, f := range failed {
		if slices.Contains(f.Shards, at.Shard) {
			at.Node, at.Name = f.Node, f.Name
			return at, fmt.Errorf("%w: %s (%v), last known home of shard %v", f.Err, f.Name, f.Node, at.Shard)
		}
		err = fmt.Errorf("%w; %s (%v): %w", err, f.Name, f.Node, f.Err)
	}
	return at, err
}

// missing lists the members that have not answered, with the shards that this node's routes
// lead to them.
func missing(survey *placement.Survey, p *registered) []NodeFailure {
	var out []NodeFailure
	for _, m := range survey.Missing() {
		out = append(out, NodeFailure{Node: m.ID, Name: m.Name, Err: ErrNoAnswer})
	}
	if out == nil {
		return nil
	}
	for shard := range ShardID(p.place.Shards) {
		home := p.Router.Status(shard).Home
		if at := slices.IndexFunc(out, func(f NodeFailure) bool { return f.Node == home }); at >= 0 {
			out[at].Shards = append(out[at].Shards, shard)
		}
	}
	return out
}
