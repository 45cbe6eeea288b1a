package endpoint

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// holding makes each entity stay in its handler until the end of the test, or until leave is called.
func (n *hostingNode) holding() (leave func()) {
	left := make(chan struct{})
	n.handle = func(_ *activation.Context, req string) (string, error) { <-left; return req, nil }
	var done bool
	leave = func() {
		if !done {
			close(left)
			done = true
		}
	}
	n.t.Cleanup(leave)
	return leave
}

// passTime lets time pass.
func passTime(d time.Duration) { <-time.After(d) }

// TestOperatorsSeeTheShardsOfAnEndpoint checks the views of a shard that runs here, of one that does not,
// and of an endpoint without a host.
func TestOperatorsSeeTheShardsOfAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.holding()
		n.HandleFrame(2, tell(token, 1))
		n.HandleFrame(2, tell(token, 2))
		n.handled()
		e := n.e
		if !e.Hosts() || e.ShardCount() != 1 || e.HostedUnder(0) != token || e.HostedUnder(1) != (protocol.Token{}) {
			t.Errorf("hosts %v, %d shards, the first one under %v", e.Hosts(), e.ShardCount(), e.HostedUnder(0))
		}
		if e.Population(0) != 1 || e.Population(1) != 0 || !e.Lives(0, "e") || e.Lives(0, "f") || e.Lives(1, "e") {
			t.Errorf("%d entities in the shard that runs here, %d in the other one", e.Population(0), e.Population(1))
		}
		state, ok := e.Describe(0, "e")
		if _, other := e.Describe(0, "f"); !ok || state.ID != "e" || state.Waiting != 1 || other {
			t.Errorf("the entity is described as %+v, %v", state, ok)
		}
		if _, ok := e.Describe(1, "e"); ok || len(e.Search(0, "e", 9)) != 1 || len(e.Search(0, "f", 9)) != 0 || e.Search(1, "e", 9) != nil {
			t.Error("an entity of a shard that does not run here is described, or another one is found than by its id")
		}
		if present := e.PresentShards(); present(0) == nil || present(1) != nil || e.ShardAt(0) == nil || e.ShardAt(1) != nil {
			t.Error("another shard than the one that runs here is present")
		}
		calls := e.RunningCalls()
		passTime(time.Second)
		if waiting, most := e.WaitingMessages(); len(calls) != 1 || calls[0].ID != "e" || e.OldestCall() != time.Second || waiting != 1 || most != 1 {
			t.Errorf("calls %+v, the oldest for %v; %d and %d messages wait", calls, e.OldestCall(), waiting, most)
		}
		e.Detach()
		if waiting, most := e.WaitingMessages(); e.Hosts() || e.ShardCount() != 0 || e.Population(0) != 0 || e.Lives(0, "e") || e.OldestCall() != 0 || waiting != 0 || most != 0 {
			t.Error("an endpoint without a host hosts shards")
		}
		if _, ok := e.Describe(0, "e"); ok || e.Search(0, "e", 9) != nil || e.RunningCalls() != nil || e.PresentShards()(0) != nil || e.ShardAt(0) != nil {
			t.Error("an endpoint without a host has entities")
		}
	})
}

// TestStartsAndStopsOfShardsAreCounted checks the counters of a driver's orders: a start that fails is not
// counted, and a stop without a host is done immediately.
func TestStartsAndStopsOfShardsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started int
		n := newHostingNode(t, func(_ *Config, s *hostingSpec) { s.ShardStarted = func() { started++ } })
		n.frame(tell(token, 1))
		if err := n.e.StartShard(0, otherToken, nil); err == nil || started != 1 || n.e.Counters.In.Load() != 1 {
			t.Errorf("a start under a second token: %v; %d starts, %d counted", err, started, n.e.Counters.In.Load())
		}
		var stopped []activation.Stopped
		done := func(s activation.Stopped) { stopped = append(stopped, s) }
		n.e.StopShard(0, token, time.Second, false, done)
		n.handled()
		if len(stopped) != 1 || stopped[0].Token != token || n.e.HostedUnder(0) == token || n.e.Counters.Out.Load() != 1 {
			t.Errorf("stops %+v, %d counted; the shard runs under %v", stopped, n.e.Counters.Out.Load(), n.e.HostedUnder(0))
		}
		n.e.Detach()
		n.e.StopShard(1, otherToken, time.Second, false, done)
		if len(stopped) != 2 || stopped[1].Shard != 1 || stopped[1].Token != otherToken || n.e.Counters.Out.Load() != 2 {
			t.Errorf("stops %+v, %d counted", stopped, n.e.Counters.Out.Load())
		}
		if err := n.e.StartShard(0, token, nil); !errors.Is(err, activation.ErrClosed) || started != 1 {
			t.Errorf("a start without a host: %v, %d starts", err, started)
		}
		n.e.Attach(n.inc, false) // a node that hosts no shards
		n.e.Abandon()
		n.e.AbandonShard(0, protocol.Token{})
		if n.e.Hosts() {
			t.Error("an endpoint that is attached without shards hosts some")
		}
	})
}

// TestAShardIsPublishedUnderItsToken checks which shards local senders may find: those that run here under
// the token of the route, and that accept messages.
func TestAShardIsPublishedUnderItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.holding()
		publish := func(shard strategy.ShardID, under protocol.Token, want bool) {
			t.Helper()
			n.e.Hide(shard)
			if got := n.e.Publish(shard, under); got != want || (n.e.locals[shard].Load() != nil) != want {
				t.Errorf("shard %d under %v is published: %v", shard, under, got)
			}
		}
		publish(0, token, true)
		publish(0, otherToken, false)
		publish(1, token, false)
		n.frame(tell(token, 1))
		n.e.StopShard(0, token, time.Hour, false, func(activation.Stopped) {})
		publish(0, token, false)
		n.e.Detach()
		publish(0, token, false)
	})
}

// openCalls begins asks whose requests are in a buffer here, at this node, and at nodes 2 and 3. ends
// returns the errors with which they have ended, nil for each that is open.
func (n *hostingNode) openCalls() (ends func() [4]error) {
	n.t.Helper()
	var calls [4]func() error
	for at := range calls {
		c := n.e.Calls.Begin(0, gossip.NodeID(at), time.Time{})
		calls[at] = func() error {
			if !n.e.Calls.Waits(c.Number) {
				return c.Err
			}
			return nil
		}
	}
	return func() (errs [4]error) {
		for at, err := range calls {
			errs[at] = err()
		}
		return errs
	}
}

// TestAsksFailWithTheNodeOfTheirRequest checks which asks fail, and how, if the shards here are abandoned,
// if a connection is lost, if a member is gone, and if the incarnation ends. Asks in buffers stay open.
func TestAsksFailWithTheNodeOfTheirRequest(t *testing.T) {
	abandoned, lost := failure.Abandoned, failure.NodeLost
	for name, c := range map[string]struct {
		do   func(n *hostingNode)
		want [4]error
		lost uint64
	}{
		"abandoned":                     {func(n *hostingNode) { n.e.Abandon() }, [4]error{1: abandoned}, 0},
		"connection lost":               {func(n *hostingNode) { n.OnPeerLost(2) }, [4]error{2: lost}, 1},
		"member gone":                   {func(n *hostingNode) { n.OnMemberGone(3) }, [4]error{3: lost}, 1},
		"detached":                      {func(n *hostingNode) { n.e.Detach() }, [4]error{1: abandoned, 2: lost, 3: lost}, 2},
		"abandoned without incarnation": {func(n *hostingNode) { n.e.Current.Store(nil); n.e.Abandon() }, [4]error{}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newHostingNode(t)
			n.e.OpenRoute(n.inc.Incarnation, 0, hostingSelf, token)
			n.frame(tell(token, 1))
			ends := n.openCalls()
			if c.do(n); ends() != c.want || n.e.Counters.NodeLost.Load() != c.lost {
				t.Errorf("%s: asks ended with %v, want %v; %d are counted as lost", name, ends(), c.want, n.e.Counters.NodeLost.Load())
			}
			here := c.want[1] == nil
			if found := n.e.locals[0].Load() != nil; found != here || (n.e.HostedUnder(0) == token) != here {
				t.Errorf("%s: local senders find the shard: %v", name, found)
			}
			if serves := n.e.Serving() != nil; serves == (name == "detached") {
				t.Errorf("%s: serves %v", name, serves)
			}
			n.e.Current.Store(n.inc)
		})
	}
}

// TestRoutesFollowTheirConnections checks that a lost connection suspends the routes to its node, that a
// wait for the node's acknowledgement ends, and that the routes flow again with the next connection, or
// with the answer to a greeting.
func TestRoutesFollowTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		d := n.e.DriveIn(n.inc)
		d.OpenRoute(1, 2, token)
		state := func(want string) {
			t.Helper()
			if home, under, got, _ := d.RouteOf(1); home != 2 || under != token || got != want {
				t.Errorf("the route to node %d, under %v, is %s, want %s", home, under, got, want)
			}
		}
		state("remote")
		for _, lose := range []func(gossip.NodeID){n.OnPeerLost, n.OnMemberGone} {
			for _, back := range []func(){func() { n.OnPeerUp(2) }, func() { n.HandleFrame(2, []byte{byte(frames.KindHelloAck)}) }} {
				_, all := n.flushed.beginWait([]gossip.NodeID{2})
				lose(3)
				state("remote")
				if isOver(all) {
					t.Error("a wait for node 2 ends without node 3")
				}
				if lose(2); !isOver(all) {
					t.Error("a node that is lost is waited for")
				}
				state("suspended")
				back()
				state("remote")
			}
		}
		d.CloseRoute(1, 2, otherToken)
		d.ResendMarker(1, 2, otherToken)
		markers := n.takeSent()
		for _, f := range markers {
			if m, err := frames.ParseMarker(f); err != nil || frames.KindOf(f) != frames.KindMarker || m.Token != otherToken || m.Shard != 1 {
				t.Errorf("a closed route sends %+v, %v", m, err)
			}
		}
		if len(markers) != 2 {
			t.Errorf("%d markers, want one for the order, and one for its repetition", len(markers))
		}
		if err := n.e.Tell(t.Context(), Origin{}, Address{Shard: 1, ID: "e"}, "waits"); err != nil || d.Buffered() != 1 {
			t.Errorf("%v, %d messages wait for a home", err, d.Buffered())
		}
		n.e.Detach()
		n.OnPeerUp(2)
		n.OnPeerLost(2)
		n.OnMemberGone(2)
	})
}

// TestNodesOfSuspendedRoutesAreGreeted checks that Look sends a greeting to each node to which a route
// waits for a connection, at each look, and none otherwise.
func TestNodesOfSuspendedRoutesAreGreeted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		n.e.OpenRoute(n.inc.Incarnation, 1, 2, token)
		n.inc.Work.Go(n.Look)
		greeted := func(want int) {
			t.Helper()
			passTime(10*lookEvery + lookEvery/2)
			synctest.Wait()
			sent := n.takeSent()
			for _, f := range sent {
				if !slices.Equal(f, []byte{byte(frames.KindHello)}) {
					t.Errorf("%q is sent", f)
				}
			}
			if len(sent) < want || len(sent) > want+1 {
				t.Errorf("%d greetings in ten looks, want %d", len(sent), want)
			}
		}
		greeted(0)
		n.OnPeerLost(2)
		greeted(10)
		n.OnPeerUp(2)
		greeted(0)
		n.OnPeerLost(2)
		n.e.Detach()
		greeted(0)
	})
}

// TestAccountsAreSweptNowAndThen checks at which looks the windows of shards that no longer run here are
// taken back, and at which idle senders are asked to give theirs up; and that a member that is gone has
// none.
func TestAccountsAreSweptNowAndThen(t *testing.T) {
	grown := func(t *testing.T) *hostingNode {
		n := newHostingNode(t)
		n.frame(frames.AppendBlocked(nil, "t", 0, token, flow.Report{Sent: 7, Limit: 7}))
		return n
	}
	used := func(n *hostingNode) uint64 {
		_, windows := n.Budgets.Used()
		return windows
	}
	for _, c := range []struct {
		looks       int
		abandoned   bool
		swept, asks bool
	}{{looksPerSweep - 1, true, false, false}, {looksPerSweep, true, true, false}, {looksPerSweep, false, false, false}, {looksPerIdle, false, false, true}, {looksPerIdle + 1, false, false, false}} {
		synctest.Test(t, func(t *testing.T) {
			n := grown(t)
			if c.abandoned {
				n.e.AbandonShard(0, token)
			}
			for range 3 {
				n.e.lookOnce(c.looks)
			}
			if swept := used(n) == 0; swept != c.swept {
				t.Errorf("%+v: taken back %v", c, swept)
			}
			if asked := len(n.takeSent()) > 0; asked != c.asks {
				t.Errorf("%+v: asked %v", c, asked)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := grown(t)
		n.OnMemberGone(3)
		if used(n) == 0 {
			t.Error("node 2 has no window after the end of node 3")
		}
		if n.OnMemberGone(2); used(n) != 0 {
			t.Error("a member that is gone has a window")
		}
		n.inc.Accounts = nil // the node hosts no shards
		n.OnMemberGone(2)
		n.e.lookOnce(looksPerSweep)
		n.e.lookOnce(looksPerIdle)
		n.e.Detach()
		n.OnMemberGone(2)
		if down := n.e.lookOnce(looksPerIdle); down != nil {
			t.Errorf("without an incarnation, routes wait for %v", down)
		}
	})
}

// TestAnEntityIsDismissedUnderTheTokenOfItsShard checks the order to end an instance, for this node, for
// another one, and as a frame of another one.
func TestAnEntityIsDismissedUnderTheTokenOfItsShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t)
		ended := func(what string, want bool) {
			t.Helper()
			n.handled()
			if n.e.Lives(0, "e") == want {
				t.Errorf("%s: the instance has ended: %v", what, !want)
			}
		}
		n.frame(tell(token, 1))
		if err := n.e.Dismiss(2, 1, token, "e"); err != nil {
			t.Error(err)
		}
		ended("dismissed at another node", false)
		sent := n.takeSent()
		if len(sent) != 1 || !slices.Equal(sent[0], frames.AppendDismiss(nil, "t", 1, token, "e")) {
			t.Errorf("sent %q", sent)
		}
		if err := n.e.Dismiss(hostingSelf, 0, otherToken, "e"); err != nil {
			t.Error(err)
		}
		ended("another token", false)
		if err := errors.Join(n.e.Dismiss(hostingSelf, 1, token, "e"), n.e.Dismiss(hostingSelf, 0, token, "e")); err != nil {
			t.Error(err)
		}
		ended("dismissed here", true)
		n.frame(tell(token, 2))
		n.frame(frames.AppendDismiss(nil, "t", 0, otherToken, "e"))
		ended("a frame with another token", false)
		n.frame(frames.AppendDismiss(nil, "t", 0, token, "e"))
		ended("a frame", true)
		n.e.Detach()
		if err := n.e.Dismiss(hostingSelf, 0, token, "e"); !errors.Is(err, failure.NotReady) {
			t.Errorf("without an incarnation: %v", err)
		}
	})
}

// TestTheLimitOfEntitiesIsKept checks that the limit of the settings holds from the start, and that a later
// one replaces it.
func TestTheLimitOfEntitiesIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHostingNode(t, func(_ *Config, s *hostingSpec) { s.Passivation.Limit = 5 })
		for i := range 8 {
			f := append(frames.AppendRequest(nil, "t", 0, string(rune('a'+i)), 0, nil), "hello"...)
			frames.Stamp(f, token, uint64(i+1))
			n.frame(f)
		}
		passTime(time.Minute)
		if got := n.e.Population(0); got != 5 {
			t.Errorf("%d entities with a limit of 5", got)
		}
		n.e.SetEntityLimit(2)
		passTime(time.Minute)
		if got := n.e.Population(0); got != 2 {
			t.Errorf("%d entities with a limit of 2", got)
		}
		_ = n.e.Detach()(context.Background())
	})
}
