package main

import (
	"context"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/sharding"
)

// overview is a cluster as one of its nodes sees it, with what all members report about the
// types of that node.
type overview struct {
	Node  peerage.Status `json:"node"`
	Types []typeRow      `json:"types"`
}

// memberRow is a member in the output of `peerage members`.
type memberRow struct {
	// Seniority is 1 for the member that joined first.
	Seniority  int               `json:"seniority"`
	Name       string            `json:"name"`
	Node       gossip.NodeID     `json:"node"`
	Addr       string            `json:"addr"`
	HTTP       string            `json:"http,omitempty"`
	Status     gossip.Status     `json:"status"`
	Leader     bool              `json:"leader"`
	Roles      []string          `json:"roles"`
	Zone       string            `json:"zone,omitempty"`
	AppVersion string            `json:"app_version,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// state returns the member's status, and whether it leads, for people.
func (m *memberRow) state() string {
	if m.Leader {
		return m.Status.String() + ", leader"
	}
	return m.Status.String()
}

// typeRow is an entity type in the output of `peerage types`.
type typeRow struct {
	// Name is in the JSON as that of TypeStats, under "type" as in all other outputs.
	Name string `json:"-"`
	Role string `json:"role,omitempty"`
	// Coordinator is the name of the node that places the shards.
	Coordinator string `json:"coordinator,omitempty"`
	ShardsTotal int    `json:"shards_total"`
	// Shards and Entities are those that run now, on all nodes that answered.
	Shards   int    `json:"shards"`
	Entities int    `json:"entities"`
	Refused  string `json:"refused,omitempty"`

	client.TypeStats
}

// shardRow is a shard in the output of `peerage shards`.
type shardRow struct {
	Type     string           `json:"type"`
	Shard    sharding.ShardID `json:"shard"`
	Node     gossip.NodeID    `json:"node"`
	Name     string           `json:"name"`
	Token    sharding.Token   `json:"token"`
	Entities int              `json:"entities"`
}

// askCluster asks a node for its status, and all members about its types, or about one type.
func askCluster(ctx context.Context, c *client.Client, only string) (o overview, err error) {
	if o.Node, err = c.Status(ctx); err != nil {
		return o, err
	}
	o.Types = []typeRow{}
	for _, t := range o.Node.Types {
		if only != "" && t.Name != only {
			continue
		}
		row := typeRow{Name: t.Name, Role: t.Role, ShardsTotal: t.ShardsTotal, Refused: t.Refused, Coordinator: o.nameOf(t.Coordinator)}
		if o.Node.View != nil {
			if row.TypeStats, err = c.Type(ctx, t.Name); err != nil {
				return o, err
			}
			row.Shards, row.Entities = row.Totals()
		}
		row.Type = t.Name
		o.Types = append(o.Types, row)
	}
	if only != "" && len(o.Types) == 0 {
		// The node's own error names the types.
		_, err = c.Type(ctx, only)
	}
	return o, err
}

// members returns the members, the most senior first.
func (o *overview) members() []memberRow {
	rows := []memberRow{}
	if o.Node.View == nil {
		return rows
	}
	for i, m := range o.Node.View.Members {
		rows = append(rows, memberRow{
			Seniority: i + 1, Name: m.Name, Node: m.ID, Addr: m.Addr, HTTP: m.Metadata[harness.HTTPMetadata], Status: m.Status,
			Leader: m.ID == o.Node.Leader, Roles: append([]string{}, m.Roles...), Zone: m.Zone, AppVersion: m.AppVersion, Metadata: m.Metadata,
		})
	}
	return rows
}

// shards returns the shards that run, by type, then number. Home limits them to those of the
// member of a name or NodeID.
func (o *overview) shards(home string) []shardRow {
	rows := []shardRow{}
	for _, t := range o.Types {
		byShard := map[sharding.ShardID]shardRow{}
		for _, n := range t.Nodes {
			if home != "" && n.Name != home && n.Node.String() != home {
				continue
			}
			for _, s := range n.Shards {
				byShard[s.Shard] = shardRow{Type: t.Name, Shard: s.Shard, Node: n.Node, Name: n.Name, Token: s.Token, Entities: s.Entities}
			}
		}
		for shard := range sharding.ShardID(t.ShardsTotal) {
			if row, ok := byShard[shard]; ok {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// hosted returns the shards and entities that a member runs, over all types.
func (o *overview) hosted(id gossip.NodeID) (shards, entities int) {
	for _, t := range o.Types {
		for _, n := range t.Nodes {
			if n.Node != id {
				continue
			}
			shards += len(n.Shards)
			for _, s := range n.Shards {
				entities += s.Entities
			}
		}
	}
	return shards, entities
}

// failed returns the members that did not answer.
func (o *overview) failed() map[gossip.NodeID]string {
	out := map[gossip.NodeID]string{}
	for _, t := range o.Types {
		for _, f := range t.Failed {
			out[f.Node] = f.Error
		}
	}
	return out
}

// nameOf returns the name of a member, or its NodeID if it is none.
func (o *overview) nameOf(id gossip.NodeID) string {
	if id == 0 {
		return ""
	}
	if o.Node.View != nil {
		for i := range o.Node.View.Members {
			if m := &o.Node.View.Members[i]; m.ID == id {
				return m.Name
			}
		}
	}
	return id.String()
}
