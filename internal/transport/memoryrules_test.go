package transport

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// twoHosts returns two nodes of a network that accept nothing by themselves.
func twoHosts(t *testing.T, cfg NetworkConfig) (n *Network, a, b *memHost) {
	w := &world{T: t, net: NewNetwork(cfg)}
	return w.net, w.make(1, "").e.net.(*memHost), w.make(2, "").e.net.(*memHost)
}

// connection returns both ends of a connection from a to b.
func connection(t *testing.T, a, b *memHost) (near, far net.Conn) {
	t.Helper()
	near, err := a.dial(t.Context(), b.addr)
	if err != nil {
		t.Fatal(err)
	}
	if far, err = b.accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// TestASocketInMemoryHoldsItsBytes checks that a write waits once the socket is full, ends at its
// deadline with what it has written, and goes on when the far end reads.
func TestASocketInMemoryHoldsItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoHosts(t, NetworkConfig{SocketBytes: 10})
		near, far := connection(t, a, b)
		began := time.Now()
		if err := near.SetDeadline(began.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := near.Write([]byte("0123456789abcde"))
		if n != 10 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%d bytes written after %v: %v", n, time.Since(began), err)
		}
		if err := near.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() { _, err := near.Write([]byte("abc")); written <- err }()
		synctest.Wait()
		if len(written) != 0 || far.(*memConn).unread() != 10 {
			t.Error("written into a full socket")
		}
		got := make([]byte, 4)
		if n, err := far.Read(got); n != 4 || err != nil || string(got) != "0123" {
			t.Errorf("read %q, %v", got[:n], err)
		}
		if err := <-written; err != nil || far.(*memConn).unread() != 9 {
			t.Errorf("%d bytes are unread: %v", far.(*memConn).unread(), err)
		}
	})
}

// TestReadsInMemory checks that a read returns what has arrived, in order and never before its
// latency, and only then the deadline or the end of the stream.
func TestReadsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := twoHosts(t, NetworkConfig{})
		near, far := connection(t, a, b)
		n.SetPath(a.addr, b.addr, Path{Latency: time.Second})
		began := time.Now()
		got := make([]byte, 10)
		expect := func(want string, at time.Duration, end error) {
			t.Helper()
			n, err := far.Read(got)
			if string(got[:n]) != want || !errors.Is(err, end) || time.Since(began) != at {
				t.Errorf("read %q after %v, %v; want %q after %v, %v", got[:n], time.Since(began), err, want, at, end)
			}
		}
		write := func(b string) {
			if _, err := near.Write([]byte(b)); err != nil {
				t.Fatal(err)
			}
		}
		write("one")
		n.SetPath(a.addr, b.addr, Path{Latency: 1500 * time.Millisecond})
		write("two")
		n.SetPath(a.addr, b.addr, Path{})
		write("three") // not before its predecessors
		if err := far.SetReadDeadline(began.Add(1200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		expect("one", time.Second, nil)
		expect("", 1200*time.Millisecond, os.ErrDeadlineExceeded)
		passTime(time.Second)
		expect("twothree", 2200*time.Millisecond, nil)
		if err := errors.Join(near.Close(), near.Close(), far.SetReadDeadline(time.Time{})); err != nil {
			t.Fatal(err)
		}
		expect("", 2200*time.Millisecond, io.EOF)
		if _, err := near.Read(got); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of a closed connection: %v", err)
		}
		if _, err := near.Write(got); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write to a closed connection: %v", err)
		}
	})
}

// TestACutEndsConnectionsInTime checks when a connection behind a cut ends: by keep-alives if it is
// idle, sooner if sent bytes stay without acknowledgement, and not at all if the cut heals before.
func TestACutEndsConnectionsInTime(t *testing.T) {
	for name, c := range map[string]struct {
		writeAt, healAt time.Duration // 0 for never
		want            time.Duration
	}{
		"idle":                          {0, 0, 8 * time.Second},
		"with data":                     {time.Second, 0, 6 * time.Second},
		"with data, late":               {4 * time.Second, 0, 8 * time.Second},
		"healed":                        {0, 7 * time.Second, 0},
		"with data, healed in time":     {time.Second, 5 * time.Second, 0},
		"with data, healed, just late":  {time.Second, 6*time.Second + 1, 6 * time.Second},
		"idle, healed, but a bit late":  {0, 8*time.Second + 1, 8 * time.Second},
		"with data at the time of heal": {2 * time.Second, 2 * time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, a, b := twoHosts(t, NetworkConfig{})
			near, _ := connection(t, a, b)
			began := time.Now()
			n.SetPaths(a.addr, b.addr, Path{Cut: Dropped})
			if c.writeAt > 0 {
				time.AfterFunc(c.writeAt, func() { _, _ = near.Write([]byte("x")) })
			}
			if c.healAt > 0 {
				time.AfterFunc(c.healAt+1, n.Heal)
			}
			if err := near.SetReadDeadline(began.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			_, err := near.Read(make([]byte, 1))
			took := time.Since(began)
			if c.want > 0 && (took != c.want || !errors.Is(err, syscall.ETIMEDOUT)) || c.want == 0 && took != time.Minute {
				t.Errorf("%s: ended after %v: %v, want after %v", name, took, err, c.want)
			}
		})
	}
}

// TestAClosedConnectionRetransmitsLate checks that what was sent before the end of a connection, and
// held by a cut, arrives after the heal, by the schedule of a kernel: within the length of the cut.
func TestAClosedConnectionRetransmitsLate(t *testing.T) {
	for _, cut := range []time.Duration{time.Second, 4 * time.Second} {
		var sum time.Duration
		for seed := range uint64(8) {
			synctest.Test(t, func(t *testing.T) {
				n, a, b := twoHosts(t, NetworkConfig{Seed: seed})
				near, far := connection(t, a, b)
				n.SetPaths(a.addr, b.addr, Path{Cut: Dropped})
				if _, err := near.Write([]byte("late")); err != nil {
					t.Fatal(err)
				}
				if err := near.Close(); err != nil {
					t.Fatal(err)
				}
				passTime(cut)
				n.Heal()
				healed := time.Now()
				got, err := io.ReadAll(far)
				took := time.Since(healed)
				if string(got) != "late" || err != nil || took > min(cut, retryMax) {
					t.Errorf("cut for %v, seed %d: %q after %v, %v", cut, seed, got, took, err)
				}
				sum += took
			})
		}
		if sum < min(cut, retryMax) {
			t.Errorf("cut for %v: retransmitted within %v in the sum of 8 seeds", cut, sum)
		}
	}
}

// TestDialsInMemory checks how long a dial takes and how it ends, by the paths and by the far end.
func TestDialsInMemory(t *testing.T) {
	const dropped = time.Minute // the deadline
	for name, c := range map[string]struct {
		there, back Path
		change      func(n *Network, a, b *memHost)
		took        time.Duration
		err         error
	}{
		"a good path":               {},
		"latencies":                 {there: Path{Latency: time.Second}, back: Path{Latency: time.Millisecond}, took: time.Second + time.Millisecond},
		"nothing listens":           {change: func(_ *Network, _, b *memHost) { _ = b.closeListener() }, err: syscall.ECONNREFUSED},
		"nothing listens, far away": {there: Path{Latency: time.Second}, change: func(_ *Network, _, b *memHost) { _ = b.closeListener() }, took: time.Second, err: syscall.ECONNREFUSED},
		"dropped":                   {there: Path{Cut: Dropped}, took: dropped, err: context.DeadlineExceeded},
		"answers dropped":           {back: Path{Cut: Dropped}, took: dropped, err: context.DeadlineExceeded},
		"rejected":                  {there: Path{Cut: Rejected}, err: syscall.ECONNREFUSED},
		"rejected, answers dropped": {there: Path{Cut: Forged}, back: Path{Cut: Dropped}, err: syscall.ECONNREFUSED},
		"answers rejected":          {back: Path{Cut: Rejected}, took: dropped, err: context.DeadlineExceeded},
		"a host without power":      {change: func(n *Network, _, b *memHost) { n.PowerOff(b.addr) }, took: dropped, err: context.DeadlineExceeded},
		"a crashed process":         {change: func(n *Network, _, b *memHost) { n.Crash(b.addr) }, err: syscall.ECONNREFUSED},
		"a paused dialler":          {change: func(n *Network, a, _ *memHost) { n.Pause(a.addr) }, took: dropped, err: context.DeadlineExceeded},
		"a paused far end":          {change: func(n *Network, _, b *memHost) { n.Pause(b.addr) }},
		"an own end":                {change: func(_ *Network, a, _ *memHost) { _ = a.closeListener() }, err: net.ErrClosed},
		"a backlog with one place":  {change: fillBacklog(backlogMax - 1)},
		"a full backlog":            {change: fillBacklog(backlogMax), took: dropped, err: context.DeadlineExceeded},
		"a backlog that is accepted": {change: func(n *Network, a, b *memHost) {
			fillBacklog(backlogMax)(n, a, b)
			time.AfterFunc(time.Second, func() { _, _ = b.accept() })
		}, took: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, a, b := twoHosts(t, NetworkConfig{})
			n.SetPath(a.addr, b.addr, c.there)
			n.SetPath(b.addr, a.addr, c.back)
			if c.change != nil {
				c.change(n, a, b)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			_, err := a.dial(ctx, b.addr)
			if took := time.Since(began); took != c.took || !errors.Is(err, c.err) {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, took, c.err, c.took)
			}
		})
	}
}

// fillBacklog opens connections that nothing accepts.
func fillBacklog(k int) func(n *Network, a, b *memHost) {
	return func(_ *Network, a, b *memHost) {
		for range k {
			_, _ = a.dial(context.Background(), b.addr)
		}
	}
}

// TestInquiriesInMemory checks which answers come, by the paths and by the far end.
func TestInquiriesInMemory(t *testing.T) {
	closed := func(_ *Network, b *memHost) { _, _ = b.closeListener(), b.closePackets() }
	for name, c := range map[string]struct {
		there, back Path
		change      func(n *Network, b *memHost)
		peer        gossip.NodeID
		want        inquiryOutcome
		took        time.Duration
	}{
		"a living process":              {peer: 2, want: Answered},
		"latencies":                     {peer: 2, there: Path{Latency: time.Second}, back: Path{Latency: time.Millisecond}, want: Answered, took: 1001 * time.Millisecond},
		"another node":                  {peer: 3, want: Unanswered},
		"a process that has ended":      {peer: 2, change: closed, want: PortUnreachable},
		"its answer is dropped":         {peer: 2, change: closed, back: Path{Cut: Dropped}, want: Unanswered},
		"its listener has ended":        {peer: 2, change: func(_ *Network, b *memHost) { _ = b.closeListener() }, want: Answered},
		"paused":                        {peer: 2, change: func(n *Network, b *memHost) { n.Pause(b.addr) }, want: Unanswered},
		"crashed":                       {peer: 2, change: func(n *Network, b *memHost) { n.Crash(b.addr) }, want: PortUnreachable},
		"without power":                 {peer: 2, change: func(n *Network, b *memHost) { n.PowerOff(b.addr) }, want: Unanswered},
		"dropped":                       {peer: 2, there: Path{Cut: Dropped}, want: Unanswered},
		"the answer is dropped":         {peer: 2, back: Path{Cut: Dropped}, want: Unanswered},
		"rejected":                      {peer: 2, there: Path{Cut: Rejected}, want: Unanswered},
		"forged":                        {peer: 2, there: Path{Cut: Forged}, back: Path{Cut: Dropped}, want: PortUnreachable},
		"lost":                          {peer: 2, there: Path{Loss: 1}, want: Unanswered},
		"the answer is lost":            {peer: 2, back: Path{Loss: 1}, want: Unanswered},
		"too far away for the deadline": {peer: 2, there: Path{Latency: time.Hour}, want: Unanswered},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, a, b := twoHosts(t, NetworkConfig{})
			n.SetPath(a.addr, b.addr, c.there)
			n.SetPath(b.addr, a.addr, c.back)
			if c.change != nil {
				c.change(n, b)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if c.want == Unanswered {
				c.took = time.Minute
			}
			began := time.Now()
			q := a.inquire(ctx, Peer{ID: c.peer, Addr: b.addr}, beaconNonce{})
			if took := time.Since(began); q.Outcome != c.want || took != c.took || q.Asked != memIP(b.addr) {
				t.Errorf("%s: %+v after %v, want %v after %v", name, q, took, c.want, c.took)
			}
			if q.Outcome != Unanswered && (q.By != q.Asked || q.TTL != memTTL) {
				t.Errorf("%s: %+v", name, q)
			}
		})
	}
}

// TestPathsOfANetwork checks which paths a split, a heal and a host without power change.
func TestPathsOfANetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := twoHosts(t, NetworkConfig{})
		n.SetUsual(Path{Latency: time.Second})
		n.SetPath("x", "y", Path{Latency: time.Minute})
		cuts := func(pairs ...string) {
			t.Helper()
			want := map[string]bool{}
			for _, p := range pairs {
				want[p] = true
			}
			for _, from := range []string{"x", "y", "z", "q"} {
				for _, to := range []string{"x", "y", "z", "q"} {
					p, latency := n.currentPath(from, to), time.Second
					if from+to == "xy" {
						latency = time.Minute
					}
					if (p.Cut != Open) != want[from+to] || p.Latency != latency {
						t.Errorf("from %s to %s: %+v", from, to, p)
					}
				}
			}
		}
		cuts()
		n.Split(Dropped, []string{"x", "y"}, []string{"z"})
		cuts("xz", "yz", "zx", "zy")
		n.Heal()
		cuts()
		n.SetUsual(Path{Latency: time.Second, Cut: Rejected})
		if p := n.currentPath("q", "x"); p.Cut != Rejected {
			t.Errorf("the usual path is %+v", p)
		}
		if n.Heal(); n.usual.Cut != Open {
			t.Error("the usual path stays cut")
		}
		n.PowerOff(b.addr)
		if n.currentPath(a.addr, b.addr).Cut != Dropped || n.currentPath(b.addr, a.addr).Cut != Dropped || n.currentPath(a.addr, "x").Cut != Open {
			t.Error("a host without power is reached, or another is not")
		}
	})
}

// TestDelaysAreWithinJitter checks that a delay is the latency and at most the jitter more.
func TestDelaysAreWithinJitter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[time.Duration]bool{}
	for range 200 {
		seen[Path{Latency: 10, Jitter: 3}.delay(rng)] = true
	}
	if len(seen) != 4 || !seen[10] || !seen[13] {
		t.Errorf("delays %v, want 10 to 13", seen)
	}
	if d := (Path{Latency: 10}).delay(rng); d != 10 {
		t.Errorf("a delay of %d without jitter", d)
	}
}

// TestDatagramsInMemory checks that a socket holds a bounded number of datagrams, none of a host
// that is paused, and that a closed one sends and returns nothing.
func TestDatagramsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := twoHosts(t, NetworkConfig{})
		for range socketPackets + 1 {
			if err := a.writePacket([]byte("x"), b.addr); err != nil {
				t.Fatal(err)
			}
		}
		if b.waitingPackets() != socketPackets {
			t.Errorf("%d datagrams wait, want %d", b.waitingPackets(), socketPackets)
		}
		got := make([]byte, 10)
		if k, from, err := b.readPacket(got); k != 1 || from.String() != a.addr || err != nil || b.waitingPackets() != socketPackets-1 {
			t.Errorf("%d bytes from %v: %v", k, from, err)
		}
		n.Pause(a.addr)
		if err := a.writePacket([]byte("x"), b.addr); err != nil || b.waitingPackets() != socketPackets-1 {
			t.Errorf("a paused host sends: %v", err)
		}
		n.Resume(a.addr)
		n.Pause(b.addr)
		go func() {
			<-time.After(time.Minute)
			n.Resume(b.addr)
		}()
		began := time.Now()
		if _, _, err := b.readPacket(got); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a host that is paused for a minute reads a datagram after %v: %v", time.Since(began), err)
		}
		if err := a.writePacket([]byte("x"), b.addr); err != nil || b.waitingPackets() != socketPackets-1 {
			t.Errorf("after the pause: %v", err)
		}
		n.SetUsual(Path{Latency: time.Second})
		if err := a.writePacket([]byte("x"), b.addr); err != nil || b.waitingPackets() != socketPackets-1 {
			t.Errorf("a datagram arrives before its latency: %v", err)
		}
		if passTime(time.Second + 1); b.waitingPackets() != socketPackets {
			t.Error("a datagram did not arrive after its latency")
		}
		if err := errors.Join(a.closeListener(), b.closeListener(), b.closePackets()); err != nil {
			t.Fatal(err)
		}
		if err := a.writePacket([]byte("x"), b.addr); err != net.ErrClosed {
			t.Errorf("a closed host sends: %v", err)
		}
		if _, _, err := b.readPacket(got); err != net.ErrClosed {
			t.Errorf("a closed host receives: %v", err)
		}
	})
}

// TestTheKeysOfNodesThatAreMetStay checks that the keys of this node, of a learnt node, and of a node that has
// only an open connection to this one, are not evicted to make room for those of other nodes.
func TestTheKeysOfNodesThatAreMetStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: NewNetwork(NetworkConfig{})}
		e := w.make(1, "").e
		e.peers.addPeers(Peer{ID: 2, Addr: "192.0.2.2:1"})
		connected := connKey{3, Bulk}
		e.inbounds.byKey[connected] = &inbound{}
		defer delete(e.inbounds.byKey, connected)
		for id, want := range map[gossip.NodeID]bool{1: true, 2: true, 3: true, 4: false} {
			if got := e.meets(id); got != want {
				t.Errorf("node %d: its key stays %v", uint64(id), got)
			}
		}
	})
}

// waitingPackets returns how many datagrams wait to be read.
func (h *memHost) waitingPackets() int {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	return len(h.packets)
}

// TestLossDelaysAConnection checks that lost bytes of a connection arrive when they are retransmitted, with
// pauses that double, four times at most.
func TestLossDelaysAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b := twoHosts(t, NetworkConfig{})
		near, far := connection(t, a, b)
		n.SetPath(a.addr, b.addr, Path{Latency: time.Millisecond, Loss: 1})
		began := time.Now()
		if _, err := near.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1)
		if _, err := far.Read(got); err != nil || time.Since(began) != time.Millisecond+15*resendAfter {
			t.Errorf("read after %v: %v, want %v", time.Since(began), err, time.Millisecond+15*resendAfter)
		}
	})
}

// TestACrashEndsItsOwnConnections checks that the connections of other hosts go on, and that a network
// forgets a connection when both of its ends have ended.
func TestACrashEndsItsOwnConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: NewNetwork(NetworkConfig{})}
		a, b, c := w.make(1, "").e.net.(*memHost), w.make(2, "").e.net.(*memHost), w.make(3, "").e.net.(*memHost)
		near, far := connection(t, a, b)
		lost, _ := connection(t, a, c)
		w.net.Crash(c.addr)
		if _, err := lost.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection to the process that crashed: %v", err)
		}
		if _, err := near.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		got := make([]byte, 1)
		if _, err := far.Read(got); err != nil || string(got) != "x" {
			t.Errorf("read %q from a process that lives: %v", got, err)
		}
		if err := errors.Join(near.Close(), lost.Close()); err != nil {
			t.Error(err)
		}
		if left := len(w.net.ends); left != 2 {
			t.Errorf("%d ends are known while one side of a connection is open, want 2", left)
		}
		if err := far.Close(); err != nil || len(w.net.ends) != 0 {
			t.Errorf("%d ends are known after all connections have ended: %v", len(w.net.ends), err)
		}
	})
}
