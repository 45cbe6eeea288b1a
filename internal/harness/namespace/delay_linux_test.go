package namespace

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/namespace/namespacetest"
)

// newTestWall returns a wall in a network namespace of this test's thread, which ends with it.
func newTestWall(t *testing.T, places int) *Wall {
	t.Helper()
	namespacetest.Enter(t)
	w, err := NewWall(t.Context(), "another", places)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tcpEcho is a connection from one place to a process of another, which sends back each line.
type tcpEcho struct {
	conn  net.Conn
	lines *bufio.Reader
}

func newTCPEcho(t *testing.T, from, to int) *tcpEcho {
	t.Helper()
	var listener net.Listener
	var err error
	inGroup(to, func() { listener, err = net.Listen("tcp4", PlaceHost(to)+":0") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := c.Write([]byte(line)); err != nil {
				return
			}
		}
	}()
	e := &tcpEcho{}
	inGroup(from, func() { e.conn, err = net.Dial("tcp4", listener.Addr().String()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.conn.Close() })
	e.lines = bufio.NewReader(e.conn)
	return e
}

// roundTrip sends a line of a length, and returns the time until it is back.
func (e *tcpEcho) roundTrip(t *testing.T, length int) time.Duration {
	t.Helper()
	line := make([]byte, length)
	line[length-1] = '\n'
	began := time.Now()
	if err := e.conn.SetDeadline(began.Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.conn.Write(line); err != nil {
		t.Fatal(err)
	}
	if back, err := e.lines.ReadString('\n'); err != nil || len(back) != length {
		t.Fatalf("%d of %d bytes came back: %v", len(back), length, err)
	}
	return time.Since(began)
}

// Connections from before a delay take it, whichever side dialled, and are quick again
// afterwards. Those between other places do not take it.
func TestDelaysConcernConnectionsFromBefore(t *testing.T) {
	w := newTestWall(t, 3)
	dialled, accepted, other := newTCPEcho(t, 0, 1), newTCPEcho(t, 1, 0), newTCPEcho(t, 1, 2)
	all := []*tcpEcho{dialled, accepted, other}
	const lines = 3
	for round, c := range []struct {
		paths []Path
		// ways is how often a round trip takes the delay.
		ways    time.Duration
		reorder bool
	}{
		{[]Path{{0, 1}, {1, 0}, {0, 2}, {2, 0}}, 2, false},
		{[]Path{{0, 1}, {0, 2}}, 1, false},
		{[]Path{{1, 0}, {2, 0}}, 1, true},
	} {
		const base = 100 * time.Millisecond
		d, err := w.DelayPaths(t.Context(), Delay{Base: base, Jitter: base / 10, Reorder: c.reorder, Seed: 1}, c.paths)
		if err != nil {
			t.Fatal(err)
		}
		took := make([]time.Duration, len(all))
		for i, e := range all {
			took[i] = e.roundTrip(t, 1<<17) // in packets of the largest size
			for range lines - 1 {
				took[i] = min(took[i], e.roundTrip(t, 10))
			}
		}
		if err := d.RoundTrip(t.Context()); err != nil {
			t.Fatal(err)
		}
		did, err := d.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %v: %+v", round, took, did)
		least := c.ways * base
		for i, e := range all[:2] {
			if took[i] < least {
				t.Errorf("round %d: a round trip of connection %d took %v, want %v", round, i, took[i], least)
			}
			if again := quickest(func() time.Duration { return e.roundTrip(t, 10) }); again >= base {
				t.Errorf("round %d: after the delay, a round trip of connection %d took %v", round, i, again)
			}
		}
		if took[2] >= base {
			t.Errorf("round %d: a round trip between other places took %v", round, took[2])
		}
		if did.DuringMS < harness.Milliseconds(least) || did.BeforeMS <= 0 || did.Packets < 2*lines || did.MeanMS < harness.Milliseconds(base) || did.Dropped != 0 {
			t.Errorf("round %d: %+v", round, did)
		}
	}
}

// quickest is the least of some measurements, on a machine that may be busy.
func quickest(measure func() time.Duration) time.Duration {
	least := measure()
	for range 9 {
		least = min(least, measure())
	}
	return least
}
