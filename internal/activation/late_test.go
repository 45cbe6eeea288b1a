package activation

import (
	"bytes"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// luggage is an entity with a state, slow where its id says so.
type luggage struct {
	id    string
	r     *rig
	state []byte
}

func (l *luggage) OnStart(*Context) error {
	if l.id == "start is slow" {
		<-l.r.gate
	}
	return nil
}

func (l *luggage) Handle(*Context, int) (int, error) {
	l.r.note(l.id + ":handled")
	return len(l.state), nil
}

func (l *luggage) Snapshot(*Context) ([]byte, error) {
	if l.id == "snapshot is slow" {
		<-l.r.gate
	}
	return append(l.state, '!'), nil
}

func (l *luggage) Restore(_ *Context, state []byte) error {
	if l.id == "restore is slow" {
		<-l.r.gate
	}
	l.state = bytes.Clone(state)
	return nil
}

// travellers is a rig whose entities are luggage.
func travellers(t *testing.T) *rig {
	var r *rig
	r = newRig(t, func(c *Config[*Context, int, int]) {
		c.New = func(id string) Entity[*Context, int, int] { return &luggage{id: id, r: r} }
	})
	return r
}

// pack stops shard 0, with all states, and returns what was said when it had ended.
func (r *rig) pack(t *testing.T, within time.Duration) *Stopped {
	t.Helper()
	var said *Stopped
	r.StopShard(0, Token{Term: 1, Seq: 1}, within, true, func(st Stopped) { said = &st })
	pass(2 * within)
	synctest.Wait()
	if said == nil {
		t.Fatal("the stop did not end")
	}
	return said
}

// A shard that did not stop in time sends what it had by then. Who comes too late, with
// a Snapshot or a Restore, changes nothing of that: the states are on their way.
func TestStatesThatComeTooLateChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := travellers(t)
		s, err := r.StartShard(0, Token{Term: 1, Seq: 1}, map[string][]byte{"asleep": []byte("a"), "restore is slow": []byte("b")})
		if err != nil {
			t.Fatal(err)
		}
		for call, id := range []string{"is well", "snapshot is slow", "restore is slow"} {
			deliver(t, s, id, ask(1, uint64(call+1)))
		}
		st := r.pack(t, time.Second)
		sent := maps.Clone(st.States)
		if !st.Forced || len(sent) != 3 || string(sent["is well"]) != "!" || string(sent["asleep"]) != "a" || string(sent["restore is slow"]) != "b" {
			t.Errorf("forced %v, states %q", st.Forced, sent)
		}
		close(r.gate)
		synctest.Wait()
		if !maps.EqualFunc(st.States, sent, bytes.Equal) {
			t.Errorf("the states that are on their way became %q, were %q", st.States, sent)
		}
		if n := r.counters.StatesLost.Load(); n != 1 {
			t.Errorf("%d states counted as lost, want the one that came too late", n)
		}
	})
}

// An instance that is still beginning when its shard is abandoned handles nothing: its
// state, if it had one, has gone, and the node may have no right to run it any more.
func TestNothingBeginsInAShardThatHasEnded(t *testing.T) {
	for _, id := range []string{"new is slow", "restore is slow", "start is slow"} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := travellers(t)
				made := r.cfg.New
				r.cfg.New = func(id string) Entity[*Context, int, int] {
					if id == "new is slow" {
						<-r.gate
					}
					return made(id)
				}
				s, err := r.StartShard(0, Token{Term: 1, Seq: 1}, map[string][]byte{id: []byte("a")})
				if err != nil {
					t.Fatal(err)
				}
				deliver(t, s, id, Message[int]{}, ask(1, 1))
				synctest.Wait()
				r.AbandonShard(0)
				close(r.gate)
				r.expectReply(t, 1, failure.Abandoned)
				r.expectLog(t)
				if n := r.counters.AbandonedTells.Load(); r.counters.Activated.Load() != 0 || n != 1 {
					t.Errorf("%d instances began, %d told messages counted as dropped", r.counters.Activated.Load(), n)
				}
			})
		})
	}
}
