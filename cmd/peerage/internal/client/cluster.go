package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/sharding"
)

// Failure is a member that did not answer, with the shards that it has on record.
type Failure struct {
	Node   gossip.NodeID      `json:"node"`
	Name   string             `json:"name"`
	Error  string             `json:"error"`
	Shards []sharding.ShardID `json:"shards"`
}

// TypeStats is a type as all members of the cluster report it.
type TypeStats struct {
	sharding.ClusterStats
	// Failed replaces that of ClusterStats, whose errors are not decoded.
	Failed []Failure `json:"failed,omitempty"`
}

// History is the history of a shard as all members report it.
type History struct {
	sharding.History
	// Failed replaces that of sharding.History, whose errors are not decoded.
	Failed []Failure `json:"failed,omitempty"`
}

// Status returns the state of the node that answers, with its view of the cluster.
func (c *Client) Status(ctx context.Context) (s peerage.Status, err error) {
	return s, c.Do(ctx, http.MethodGet, "/status", nil, &s)
}

// Type returns what all members report about a type.
func (c *Client) Type(ctx context.Context, typ string) (s TypeStats, err error) {
	return s, c.Do(ctx, http.MethodGet, "/shards", url.Values{"type": {typ}}, &s)
}

// Where returns the home of an entity.
func (c *Client) Where(ctx context.Context, typ, id string) (l sharding.Location, err error) {
	return l, c.Do(ctx, http.MethodGet, "/where", url.Values{"type": {typ}, "id": {id}}, &l)
}

// Explain returns the history of a shard, or of the shard of an entity if id is set.
func (c *Client) Explain(ctx context.Context, typ, shard, id string) (h History, err error) {
	query := url.Values{"type": {typ}, "shard": {shard}}
	if id != "" {
		query = url.Values{"type": {typ}, "id": {id}}
	}
	return h, c.Do(ctx, http.MethodGet, "/explain", query, &h)
}

// Place asks for shards of a type to live on the node of a name; "" withdraws the wish.
func (c *Client) Place(ctx context.Context, typ string, shard sharding.ShardID, name string) error {
	var none struct{}
	query := url.Values{"type": {typ}, "shard": {strconv.FormatUint(uint64(shard), 10)}, "node": {name}}
	return explainMissing(c.Do(ctx, http.MethodPost, "/place", query, &none), howToPlace)
}

const (
	howToPlace = "the service must allow it: with dashboard.Options.AllowPlace on its dashboard, or by a handler of its own that calls Registry.Place"
	howToDrain = "end its process with SIGTERM if it calls Node.Shutdown then, or let the service allow drains: with dashboard.Options.AllowDrain" +
		" on its dashboard, or by a handler of its own that calls Node.Drain"
)

// explainMissing explains the answer of a service that serves Node.Handler, which is read-only, but not
// what "peerage node" serves besides.
func explainMissing(err error, how string) error {
	refused := (*RefusedError)(nil)
	if errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed) {
		return fmt.Errorf("%s offers no such request over HTTP, as \"peerage node\" does; %s", refused.Node, how)
	}
	return err
}

// Drain takes the member of a name or NodeID out of its cluster, and waits until it has left.
func (c *Client) Drain(ctx context.Context, name string) (d harness.Drained, err error) {
	s, err := c.Status(ctx)
	if err != nil {
		return d, err
	}
	if s.Name == name || s.Node.String() == name {
		return d, explainMissing(c.Do(ctx, http.MethodPost, "/drain", nil, &d), howToDrain)
	}
	m, err := member(&s, name)
	if err != nil {
		return d, err
	}
	api := m.Metadata[harness.HTTPMetadata]
	if api == "" {
		return d, fmt.Errorf("%s does not publish the address of its HTTP API; name that with --node", name)
	}
	return d, explainMissing(c.DoAt(ctx, api, http.MethodPost, "/drain", nil, &d), howToDrain)
}

// Metrics returns the metrics of the node whose HTTP API is at an address, as text.
func (c *Client) Metrics(ctx context.Context, api string) ([]byte, error) {
	return c.fetch(ctx, api, http.MethodGet, "/metrics", nil)
}

// member finds a member by its name or NodeID.
func member(s *peerage.Status, name string) (*gossip.Member, error) {
	if s.View == nil {
		return nil, fmt.Errorf("%s is in no cluster, so it finds no %s", s.Name, name)
	}
	var found []*gossip.Member
	var names []string
	for i := range s.View.Members {
		m := &s.View.Members[i]
		names = append(names, m.Name)
		if m.ID.String() == name {
			return m, nil
		}
		if m.Name == name {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("no member is named %q; the members are %s", name, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%d members are named %q; use a NodeID, which `peerage members` prints", len(found), name)
}
