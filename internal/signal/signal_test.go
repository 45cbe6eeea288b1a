package signal

import "testing"

// ready reports whether ch has a value or is closed.
func ready(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestBroadcastWakesAllThatWaited(t *testing.T) {
	var s Signal
	s.Broadcast()
	first, second := s.Wait(), s.Wait()
	if ready(first) || ready(second) {
		t.Fatal("a Broadcast before Wait wakes")
	}
	s.Broadcast()
	if !ready(first) || !ready(second) {
		t.Error("a Broadcast leaves goroutines waiting")
	}
	if ready(s.Wait()) {
		t.Error("one Broadcast wakes a later Wait as well")
	}
}

func TestWakeHoldsOneWakeUp(t *testing.T) {
	w := NewWake()
	if ready(w) {
		t.Fatal("a new Wake is set")
	}
	w.Set()
	w.Set()
	if !ready(w) {
		t.Error("Set leaves the goroutine waiting")
	}
	if ready(w) {
		t.Error("two calls of Set wake twice")
	}
}
