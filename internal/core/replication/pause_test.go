package replication

import (
	"errors"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// pausedWrite begins a write at two replicas, at node 1 of three, with a deadline of 5 s,
// and steps that node again only after 6 s: its process did not run. The answer of
// node 2 has come meanwhile, and waits to be read.
func pausedWrite(t *testing.T) (one *Core, out *Effects, wake clock.Instant, answer Message) {
	v := &gossip.View{Epoch: gossip.FirstEpoch(1)}
	for id := gossip.NodeID(1); id <= 3; id++ {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	out = &Effects{}
	one, two := New(Config{Self: 1}), New(Config{Self: 2})
	one.Step(1, ViewChanged{View: v}, out)
	two.Step(1, ViewChanged{View: v}, out)
	out.Reset()
	one.Step(2, Update{ID: 1, Level: replicator.To(2), Ops: []operation.Op{addTo(1, "k", "e")}}, out)
	deltas := out.Send[0].Msg
	out.Reset()
	two.Step(3, Received{From: 1, Msg: deltas}, out)
	for _, s := range out.Send {
		if _, ok := s.Msg.(*Ack); ok {
			answer = s.Msg
		}
	}
	out.Reset()
	wake = clock.Instant(6 * time.Second)
	one.Step(wake, Tick{}, out)
	if len(out.Reply) > 0 || answer == nil {
		t.Fatalf("after the pause, before anything was read: %+v, answer %v", out.Reply, answer)
	}
	return one, out, wake, answer
}

// A write was given up with "1 of 2 replicas answered" when the process had
// been stopped beyond its deadline, although the answers were there.
func TestAnswersThatCameWhileTheProcessStoodStillCount(t *testing.T) {
	one, out, wake, answer := pausedWrite(t)
	out.Reset()
	one.Step(wake+1, Received{From: 2, Msg: answer}, out)
	if len(out.Reply) != 1 || out.Reply[0].Err != nil {
		t.Errorf("%+v", out.Reply)
	}
}

func TestPausePutsADeadlineOffOnce(t *testing.T) {
	one, out, wake, _ := pausedWrite(t)
	asked := 0
	for _, s := range out.Send {
		if _, ok := s.Msg.(*Deltas); ok {
			asked++
		}
	}
	if asked == 0 {
		t.Error("nobody was asked again")
	}
	out.Reset()
	// It pauses again.
	one.Step(wake.Add(time.Second), Tick{}, out)
	if len(out.Reply) != 1 || !errors.Is(out.Reply[0].Err, replicator.ErrOutcomeUnknown) {
		t.Errorf("%+v", out.Reply)
	}
}
