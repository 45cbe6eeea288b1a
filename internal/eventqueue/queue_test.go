package eventqueue

import (
	"slices"
	"testing"
)

func TestFramesAreDroppedAboveTheBoundAndEventsAreNot(t *testing.T) {
	q := New(nil)
	for range FramesMax {
		if !q.PutFrame("frame") {
			t.Fatal("a frame is dropped below the bound")
		}
	}
	if q.PutFrame("frame") {
		t.Error("a frame above the bound is kept")
	}
	if !q.Put("event") {
		t.Error("an event is dropped")
	}
	if n := len(q.Take(nil)); n != FramesMax+1 {
		t.Errorf("%d events, want %d", n, FramesMax+1)
	}
	if !q.PutFrame("frame") {
		t.Error("a frame is dropped although all were taken")
	}
}

func TestEventsAreJoinedWithTheNewestOnly(t *testing.T) {
	q := New(func(last, ev any) (any, bool) {
		a, b := last.(string), ev.(string)
		return a + b, a[0] == b[0]
	})
	for _, ev := range []string{"a", "a", "b", "a", "a"} {
		q.Put(ev)
	}
	if got := q.Take(nil); !slices.Equal(got, []any{"aa", "b", "aa"}) {
		t.Errorf("takes %v", got)
	}
}

func TestAClosedQueueKeepsItsEventsAndTakesNoMore(t *testing.T) {
	q := New(nil)
	q.Put("first")
	<-q.Ready()
	q.CloseWith("last")
	select {
	case <-q.Ready():
	default:
		t.Error("CloseWith wakes no reader")
	}
	if q.Put("late") || q.PutFrame("late") {
		t.Error("a closed queue takes events")
	}
	if got := q.Take(nil); !slices.Equal(got, []any{"first", "last"}) {
		t.Errorf("takes %v", got)
	}
}
