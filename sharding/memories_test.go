package sharding

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/core/protocol"
)

// recalled is the memory of a shard whose ids were read once, and are not to be read again
// by the clock.
func recalled(ids ...string) (m *memories, token Token, now time.Time) {
	m, token, now = newMemories(), protocol.Token{Term: 1, Seq: 1}, time.Now()
	for range 2 {
		m.beginRead(3)
		m.learn(3, token, ids, now)
		m.beginRead(3)
		m.learn(3, token, ids, now)
	}
	return m, token, now
}

// write does one write of all that waits.
func (m *memories) write() []update {
	all := m.take()
	for _, b := range all {
		m.written(b, true)
	}
	return all
}

// What the store knows is not told to it again.
func TestOnlyNewsAreWritten(t *testing.T) {
	m, _, _ := recalled("a")
	if !m.note(3, "a", true) || m.queued() != 0 {
		t.Errorf("%d wait although nothing is new", m.queued())
	}
	m.note(3, "a", false)
	m.note(3, "a", true)
	if all := m.write(); len(all) != 1 || !slices.Equal(all[0].add, []string{"a"}) || len(all[0].remove) != 0 {
		t.Errorf("writes %+v, want the last news", all)
	}
}

// One that wishes to end while its shard is read is not started by what the read says,
// whether the wish waits, is being written, or is written by then.
func TestWhoEndsDuringAReadIsNotStartedByIt(t *testing.T) {
	for name, write := range map[string]func(m *memories){
		"waits": func(*memories) {}, "being written": func(m *memories) { m.take() }, "written": func(m *memories) { m.write() },
	} {
		m, token, now := recalled()
		m.beginRead(3)
		m.note(3, "a", false)
		write(m)
		if start := m.learn(3, token, []string{"a", "b"}, now); !slices.Equal(start, []string{"b"}) {
			t.Errorf("%s: starts %v", name, start)
		}
	}
}

// One write takes so many ids of a shard, and the next one the others.
func TestWritesAreBounded(t *testing.T) {
	m := newMemories()
	for i := range dirtyBatch + 1 {
		m.note(3, fmt.Sprint(i), i%2 == 0)
	}
	for _, want := range []int{dirtyBatch, 1} {
		if all := m.write(); len(all) != 1 || len(all[0].add)+len(all[0].remove) != want {
			t.Errorf("%d ids in the write, want %d", len(all[0].add)+len(all[0].remove), want)
		}
	}
	if all := m.write(); len(all) != 0 || m.queued() != 0 {
		t.Errorf("writes %+v, %d wait", all, m.queued())
	}
}

// A write that is overtaken by other news of an entity says nothing of it any more.
func TestAWriteThatIsOvertakenIsForgotten(t *testing.T) {
	for _, ok := range []bool{true, false} {
		m, _, _ := recalled()
		m.note(3, "a", true)
		all := m.take()
		m.note(3, "a", false)
		m.written(all[0], ok)
		m.write()
		if m.remembers(3, "a") || m.queued() != 0 {
			t.Errorf("written %v: remembers one that has ended since, %d wait", ok, m.queued())
		}
	}
}

// A shard is read anew for each allocation, and when one could not be started where it
// belongs by now; not else.
func TestWhenAShardIsReadAnew(t *testing.T) {
	m, token, now := recalled("a")
	later := token
	later.Seq++
	if m.news(3, token, now.Add(time.Hour)) || !m.news(3, later, now) || !m.news(4, token, now) {
		t.Error("read for want of news, or not for a later allocation, or not at all")
	}
	m.moved(3, "a", false, now)
	if m.news(3, token, now.Add(recallAgain-1)) || !m.news(3, token, now.Add(recallAgain)) {
		t.Error("one that could not be started is not tried again in time")
	}
	m.beginRead(3)
	if m.endRead(3); !m.news(3, token, now) {
		t.Error("a read that was given up is not made again")
	}
}

// What the store has lost is written again, as far as there is room.
func TestWhatTheStoreHasLostIsWrittenAgain(t *testing.T) {
	for _, room := range []int{0, 1, 9} {
		m, token, now := recalled("a", "b")
		m.waiting = dirtyMax - room
		m.beginRead(3)
		m.learn(3, token, nil, now)
		if n := m.queued() - (dirtyMax - room); n != min(room, 2) {
			t.Errorf("room for %d: %d written again", room, n)
		}
	}
}

// One that falls while the store is told of it for the first time is started again.
func TestWhoFallsBeforeItIsWrittenIsStartedAgain(t *testing.T) {
	m := newMemories()
	m.fell(3, "nobody")
	m.note(3, "a", true)
	m.fell(3, "a")
	if all := m.takeFallen(); !slices.Equal(all, []fallen{{3, "a"}}) {
		t.Errorf("fallen: %v", all)
	}
	m.take()
	m.fell(3, "a")
	if all := m.takeFallen(); !slices.Equal(all, []fallen{{3, "a"}}) {
		t.Errorf("fallen while it is written: %v", all)
	}
}
