package transport

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

func TestHappy(t *testing.T) {
	mk := func(id view.NodeID, name string) *TCP {
		tr, err := NewTCP(TCPConfig{Config: Config{ID: id, Name: name, Cluster: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	a, b := mk(1, "a"), mk(2, "b")
	got := make(chan string, 10)
	b.Handle(KindView, func(from view.NodeID, p []byte) { got <- string(p) })
	a.Observe(func(ev PeerEvent) { t.Log("a", ev.Type, ev.Class, ev.Peer, ev.Err) })
	b.Observe(func(ev PeerEvent) { t.Log("b", ev.Type, ev.Class, ev.Peer, ev.Err) })
	a.Start()
	b.Start()
	a.Learn(b.Self())
	if err := a.Send(2, Message, KindView, []byte("x")); err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-got:
		t.Log(s)
	case <-time.After(3 * time.Second):
		t.Fatal("nothing")
	}
}
