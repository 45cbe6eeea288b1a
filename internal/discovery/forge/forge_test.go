package forge

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/zeebo/xxh3"
)

// userMessage is the kind of a message that memberlist hands to its Delegate as it is.
const userMessage = 8

// receiver is a memberlist on a network of its own, and the user messages that it received.
type receiver struct {
	to   *memberlist.MockTransport
	from *memberlist.MockTransport
	list *memberlist.Memberlist
	got  chan string
}

func (r *receiver) NodeMeta(int) []byte             { return nil }
func (r *receiver) NotifyMsg(b []byte)              { r.got <- string(b) }
func (r *receiver) GetBroadcasts(int, int) [][]byte { return nil }
func (r *receiver) LocalState(bool) []byte          { return nil }
func (r *receiver) MergeRemoteState([]byte, bool)   {}
func (r *receiver) NotifyJoin(n *memberlist.Node)   { r.got <- "joined " + n.Name + " " + n.Address() }
func (r *receiver) NotifyLeave(n *memberlist.Node)  {}
func (r *receiver) NotifyUpdate(n *memberlist.Node) {}
func (r *receiver) send(t *testing.T, datagram []byte) {
	t.Helper()
	if _, err := r.from.WriteTo(datagram, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
}

// startReceiver starts memberlist with the label of a cluster. Its own probes and gossip
// never begin.
func startReceiver(t *testing.T, cluster string) *receiver {
	t.Helper()
	var network memberlist.MockNetwork
	r := &receiver{to: network.NewTransport("to"), from: network.NewTransport("from"), got: make(chan string, 1024)}
	cfg := memberlist.DefaultLocalConfig()
	cfg.Name, cfg.Transport, cfg.Delegate, cfg.Events, cfg.LogOutput = "to", r.to, r, r, io.Discard
	cfg.Label = "peerage-" + strconv.FormatUint(xxh3.HashString(cluster), 16)
	cfg.ProbeInterval, cfg.GossipInterval, cfg.PushPullInterval = 0, 0, 0
	var err error
	if r.list, err = memberlist.Create(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.list.Shutdown() })
	r.await(t, "joined to 127.0.0.1:1")
	return r
}

// await waits for user messages and joins, in any order.
func (r *receiver) await(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	deadline := time.After(30 * time.Second)
	for len(got) < len(want) {
		select {
		case s := <-r.got:
			got = append(got, s)
		case <-deadline:
			t.Fatalf("memberlist handled %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("memberlist handled %q, want %q", got, want)
	}
}

func user(text string) []byte { return append([]byte{userMessage}, text...) }

// TestMemberlistReadsTheForms: attacks with these datagrams reach memberlist's own code, so
// what a gate does not stop has its effect.
func TestMemberlistReadsTheForms(t *testing.T) {
	r := startReceiver(t, "c")
	r.send(t, Labelled("c", user("plain")))
	r.await(t, "plain")
	r.send(t, Labelled("c", Compound(user("one"), user("two"), user(""))))
	r.await(t, "", "one", "two")
	long := string(bytes.Repeat([]byte("long "), 10_000))
	packed := Compressed(user(long))
	if len(packed) > len(long)/10 {
		t.Errorf("%d bytes are packed into %d", len(long), len(packed))
	}
	r.send(t, Labelled("c", packed))
	r.await(t, long)
	r.send(t, Labelled("c", Compressed(Compound(user("in"), Compressed(user("nested"))))))
	r.await(t, "in", "nested")
}

// TestMemberlistReadsMessages: an alive message with these names of fields makes a member.
func TestMemberlistReadsMessages(t *testing.T) {
	r := startReceiver(t, "c")
	r.send(t, Labelled("c", Message(4, map[string]any{
		"Incarnation": uint32(1), "Node": "forged", "Addr": []byte{10, 0, 0, 9}, "Port": uint16(7101),
		"Meta": []byte(nil), "Vsn": []byte{1, 5, 2, 0, 0, 0},
	})))
	r.await(t, "joined forged 10.0.0.9:7101")
	if n := r.list.NumMembers(); n != 2 {
		t.Errorf("%d members", n)
	}
}

// TestALabelIsThatOfItsCluster: memberlist drops a datagram of another cluster, and one
// without a label.
func TestALabelIsThatOfItsCluster(t *testing.T) {
	r := startReceiver(t, "c")
	r.send(t, Labelled("d", user("other")))
	r.send(t, user("bare"))
	r.send(t, Labelled("c", user("own")))
	r.await(t, "own")
	rest, label, err := memberlist.RemoveLabelHeaderFromPacket(Labelled("d", []byte("body")))
	if err != nil || string(rest) != "body" || label != "peerage-"+strconv.FormatUint(xxh3.HashString("d"), 16) {
		t.Errorf("label %q, rest %q, %v", label, rest, err)
	}
}

func TestAFieldThatCannotBeEncoded(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a channel was encoded")
		}
	}()
	Message(4, map[string]any{"Node": make(chan int)})
}
