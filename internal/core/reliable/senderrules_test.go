package reliable

import (
	"maps"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// TestAnEntityWithoutRoomPausesAlone checks that a block of one entity pauses its messages alone, and ends after a pause or
// once there is room for that entity.
func TestAnEntityWithoutRoomPausesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		freed Freed
		want  []string
	}{
		"room for it":             {Freed{Shard: 1, ID: "a"}, []string{"1/1 after 0"}},
		"room for another entity": {Freed{Shard: 1, ID: "b"}, nil},
		"room for an unknown one": {Freed{Shard: 1, ID: "x"}, nil},
		"room for another shard":  {Freed{Shard: 2, ID: "a"}, nil},
		"a route to its shard":    {Freed{Shard: 1}, nil},
	} {
		d := newDesk(t, func(c *Config) { c.Resend = time.Hour })
		d.offer(1, "a", 1)
		d.offer(1, "b", 1)
		if m, ok := d.Next(d.now); !ok || m.ID != "a" {
			t.Fatalf("%s: first comes %+v", name, m)
		}
		d.do(Blocked{Shard: 1, ID: "a"})
		d.expect(name+": the other entity", "2/1 after 0")
		d.do(c.freed)
		d.expect(name, c.want...)
		if c.want == nil {
			if got := d.wait(); got != blockedMin {
				t.Errorf("%s: the pause took %v, want %v", name, got, blockedMin)
			}
			d.expect(name+", after the pause", "1/1 after 0")
		}
	}
}

// TestMarksSeparateEarlierMessages checks that marks lie above the messages which are unconfirmed, and are passed once all
// of those are confirmed, whatever was offered since.
func TestMarksSeparateEarlierMessages(t *testing.T) {
	d := newDesk(t, nil)
	if marks := d.Marks(); len(marks) != 0 || !d.Past(marks) {
		t.Errorf("without messages: marks %v", marks)
	}
	d.offer(1, "a", 1)
	d.offer(1, "b", 1)
	d.offer(2, "a", 1)
	marks := d.Marks()
	if want := map[protocol.ShardID]uint64{1: 3, 2: 2}; !maps.Equal(marks, want) {
		t.Errorf("marks %v, want %v", marks, want)
	}
	d.offer(1, "a", 1)
	d.pump()
	for i, c := range []struct {
		confirmed Confirmed
		want      bool
	}{
		{Confirmed{Shard: 1, Seq: 2, From: 1}, false}, {Confirmed{Shard: 1, Seq: 1, From: 1}, false}, {Confirmed{Shard: 2, Seq: 1, From: 1}, true},
		{Confirmed{Shard: 1, Seq: 3, From: 1}, true},
	} {
		if d.do(c.confirmed); d.Past(marks) != c.want {
			t.Errorf("after confirmation %d: passed %v, want %v", i+1, !c.want, c.want)
		}
	}
}

// TestFreedEntitiesGoOnInTheOrderOfTheirMessages checks that messages leave in the order of their numbers once there is a route,
// whatever has been confirmed between them.
func TestFreedEntitiesGoOnInTheOrderOfTheirMessages(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Resend = time.Hour })
	for _, id := range []string{"a", "b", "c", "b"} {
		d.offer(1, id, 1)
	}
	d.pump()
	d.do(Confirmed{Shard: 1, Seq: 2, From: 1})
	d.do(Lost{})
	if _, ok := d.Next(d.now); !ok {
		t.Fatal("nothing to send")
	}
	d.do(Blocked{Shard: 1})
	d.expect("without a route")
	d.do(Freed{Shard: 1})
	d.expect("with a route", "1/2 after 0", "3/2 after 0", "4/2 after 0")
}

// TestAConfirmationCausesNoCopy checks that the confirmation of a later message retransmits no earlier one.
func TestAConfirmationCausesNoCopy(t *testing.T) {
	d := newDesk(t, nil)
	d.offer(1, "a", 1)
	d.offer(1, "a", 1)
	d.expect("at first", "1/1 after 0", "2/1 after 1")
	d.do(Confirmed{Shard: 1, Seq: 2, From: 1})
	d.expect("after the confirmation of the second")
}

// TestAnEntityIsReadyOnce checks that an entity is listed once, however many messages it has, and that a block of a shard without
// messages changes nothing.
func TestAnEntityIsReadyOnce(t *testing.T) {
	d := newDesk(t, nil)
	for range 3 {
		d.offer(1, "a", 1)
	}
	if len(d.ready) != 1 {
		t.Errorf("listed %d times", len(d.ready))
	}
	if d.do(Blocked{Shard: 2}); len(d.blocked) != 0 {
		t.Error("a shard without messages is blocked")
	}
}

// TestEffectsAreReset checks that the shell's buffer keeps its memory, and no messages in it.
func TestEffectsAreReset(t *testing.T) {
	e := Effects{Taken: true, Done: []Done{{Data: []byte("x")}}}
	e.Reset()
	if e.Taken || len(e.Done) != 0 || cap(e.Done) != 1 || e.Done[:1][0].Data != nil {
		t.Errorf("%+v, before it %+v", e, e.Done[:1])
	}
}
