package placement

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/replicator"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// recordStore is a Store of one type in memory. A write takes 10 ms.
type recordStore struct {
	mu      sync.Mutex
	records []protocol.Record
}

func (s *recordStore) Write(_ context.Context, _ string, w coordinator.Write) error {
	<-time.After(10 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, w.Records...)
	return nil
}

func (s *recordStore) Read(context.Context, string, gossip.Epoch) (Records, error) {
	return Records{}, nil
}

// idleEndpoint runs no entities; it records its shards and routes.
type idleEndpoint struct {
	mu       sync.Mutex
	hosted   map[strategy.ShardID]protocol.Token
	homes    map[strategy.ShardID]gossip.NodeID
	startErr error
}

func newIdleEndpoint() *idleEndpoint {
	return &idleEndpoint{hosted: map[strategy.ShardID]protocol.Token{}, homes: map[strategy.ShardID]gossip.NodeID{}}
}

func (e *idleEndpoint) CloseRoute(shard strategy.ShardID, _ gossip.NodeID, _ protocol.Token) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.homes, shard)
}

func (e *idleEndpoint) ResendMarker(strategy.ShardID, gossip.NodeID, protocol.Token) {}

func (e *idleEndpoint) OpenRoute(shard strategy.ShardID, home gossip.NodeID, _ protocol.Token) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.homes[shard] = home
}

func (e *idleEndpoint) SetDifference(*string) {}

func (e *idleEndpoint) RouteOf(shard strategy.ShardID) (gossip.NodeID, protocol.Token, string, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.homes[shard], e.hosted[shard], "", 0
}

func (e *idleEndpoint) Buffered() int { return 0 }

func (e *idleEndpoint) StartShard(shard strategy.ShardID, token protocol.Token, _ map[string][]byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.startErr != nil {
		return e.startErr
	}
	e.hosted[shard] = token
	return nil
}

func (e *idleEndpoint) StopShard(shard strategy.ShardID, token protocol.Token, _ time.Duration, _ bool, done func(activation.Stopped)) {
	e.AbandonShard(shard, token)
	done(activation.Stopped{Shard: shard, Token: token})
}

func (e *idleEndpoint) Abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.hosted)
}

func (e *idleEndpoint) AbandonShard(shard strategy.ShardID, _ protocol.Token) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.hosted, shard)
}

func (e *idleEndpoint) Resume() {}

func (e *idleEndpoint) HostedUnder(shard strategy.ShardID) protocol.Token {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hosted[shard]
}

func (e *idleEndpoint) Population(strategy.ShardID) int { return 0 }

func (e *idleEndpoint) ShardCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.hosted)
}

func (e *idleEndpoint) Describe(strategy.ShardID, string) (s activation.EntityState, ok bool) {
	return s, ok
}

func (e *idleEndpoint) Search(strategy.ShardID, string, int) []activation.EntityState { return nil }

// hostType makes a node of role "back" host a type of four shards in a view of its own.
func hostType(t *testing.T) (ds *Drivers, d *TypeDriver, e *idleEndpoint, s *recordStore, c *Counters) {
	ds, _, _ = newDrivers(t, 1, "back")
	e, s, c = newIdleEndpoint(), &recordStore{}, &Counters{}
	ds.cfg.Store = func(string) Store { return s }
	ds.AddType(Type{Name: "ear", Role: "back", Shards: 4}, c, func(made *TypeDriver) Endpoint {
		d = made
		return e
	})
	ds.ViewChanged(viewOf(1, 1))
	<-time.After(5 * time.Second)
	return ds, d, e, s, c
}

func TestAShardThatIsNeededRunsAndIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds, d, e, s, _ := hostType(t)
		if !ds.Ready() || d.OfficeTerm() == 0 {
			t.Fatalf("ready %v, in office in term %v", ds.Ready(), d.OfficeTerm())
		}
		d.NeedHome(2)
		<-time.After(time.Second)
		token := e.HostedUnder(2)
		if token.IsZero() || e.homes[2] != 1 || e.ShardCount() != 1 {
			t.Errorf("shard 2 runs under %v, its route leads to %v, %d shards run", token, e.homes[2], e.ShardCount())
		}
		found := false
		for _, r := range s.records {
			found = found || r.Shard == 2 && r.Home == 1 && r.Token == token
		}
		if !found {
			t.Errorf("no record of shard 2 at node 1 under %v: %+v", token, s.records)
		}
		if st := ds.Status()[0]; !st.Registered || !st.Coordinating || st.Shards[2].Home != 1 {
			t.Errorf("status %+v", st)
		}
		if a := ds.Answer(&protocol.Query{Head: protocol.Head{Type: "ear"}}); len(a.Shards) != 1 || a.Shards[0].Token != token {
			t.Errorf("answer %+v", a)
		}
	})
}

// A shard that cannot start is reported as stopped, and counted, and tried again with pauses.
func TestAShardThatCannotStartIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, e, _, c := hostType(t)
		e.mu.Lock()
		e.startErr = errors.New("runs already")
		e.mu.Unlock()
		d.NeedHome(1)
		<-time.After(time.Second)
		if n := c.Duplicates.Load(); n == 0 || n > 10 || e.ShardCount() != 0 {
			t.Errorf("%d counted in a second, %d shards run", n, e.ShardCount())
		}
		e.mu.Lock()
		e.startErr = nil
		e.mu.Unlock()
		d.NeedHome(1)
		<-time.After(time.Minute)
		if e.HostedUnder(1).IsZero() {
			t.Error("the shard does not run once it can")
		}
	})
}

func TestASupersededAllocationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d, e, _, _ := hostType(t)
		d.NeedHome(0)
		<-time.After(time.Second)
		token := e.HostedUnder(0)
		d.Supersede(0, protocol.Token{Term: token.Term, Seq: token.Seq + 1})
		synctest.Wait()
		if e.HostedUnder(0) != token {
			t.Error("another token ended the allocation")
		}
		d.Supersede(0, token)
		synctest.Wait()
		if now := e.HostedUnder(0); now == token {
			t.Errorf("the shard still runs under %v", now)
		}
	})
}

func TestResultsOfAStore(t *testing.T) {
	fenced := &replicator.Error{Code: replicator.ErrFenced, Higher: 9}
	for _, c := range []struct {
		err    error
		want   coordinator.Result
		higher gossip.Epoch
	}{
		{nil, coordinator.OK, 0},
		{fenced, coordinator.Fenced, 9},
		{fmt.Errorf("write: %w", fenced), coordinator.Fenced, 9},
		{context.DeadlineExceeded, coordinator.Unknown, 0},
	} {
		if got, higher := StoreResult(c.err); got != c.want || higher != c.higher {
			t.Errorf("%v: %v, %v, want %v, %v", c.err, got, higher, c.want, c.higher)
		}
	}
}
