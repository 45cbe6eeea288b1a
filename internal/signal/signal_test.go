package signal

import "testing"

func closed(ch <-chan struct{}) bool {
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
	if closed(first) || closed(second) {
		t.Fatal("a Broadcast before Wait wakes")
	}
	s.Broadcast()
	if !closed(first) || !closed(second) {
		t.Error("a Broadcast leaves goroutines waiting")
	}
	if closed(s.Wait()) {
		t.Error("one Broadcast wakes a later Wait as well")
	}
}
