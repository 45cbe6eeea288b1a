package membership

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/zeebo/xxh3"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/internal/wire"
)

// metaVersion is the first byte of memberlist's node metadata.
const metaVersion = 1

// rejoinFanout is how many addresses one round of re-joining tries: memberlist
// dials them one after the other.
const rejoinFanout = 3

// discovery runs memberlist on our transport. It finds nodes and spreads their addresses;
// it decides nothing. Its delegates run under memberlist's locks, so they copy, enqueue
// and return.
type discovery struct {
	self    gossip.Node
	sink    discoverySink
	ml      *memberlist.Memberlist
	tr      *gossipTransport
	keyring keyring
	names   *nameTable

	mu sync.Mutex
	// addrs are the addresses to join again.
	addrs []string
	// alive counts, by address, the nodes that memberlist considers alive. It is a copy
	// because memberlist's own records change while they are read.
	alive map[string]int
	// aloneSignal holds a token when no other node is alive.
	aloneSignal chan struct{}

	stop  chan struct{}
	ended chan struct{}
	// left is closed when memberlist has announced that it leaves, or never will.
	leaving sync.Once
	left    chan struct{}
}

// found is a hint: a node that memberlist considers alive.
type found struct{ node gossip.Node }

// discoverySink holds the callbacks of discovery into its node.
type discoverySink struct {
	// found queues a hint, and reports whether there was room.
	found func(found) bool
	// member reports whether the view shows a node at its address.
	member func(*gossip.Node) bool
	count  *counters
}

// startDiscovery creates the memberlist and starts to join the addresses of setAddrs.
func startDiscovery(cfg *Config, self gossip.Node, t transport.Transport, sink discoverySink) (*discovery, error) {
	ip, port, err := advertised(self.Addr)
	if err != nil {
		return nil, err
	}
	d := &discovery{
		self: self, sink: sink, names: newNameTable(), alive: map[string]int{}, aloneSignal: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}), left: make(chan struct{}),
	}
	mc := d.config(cfg)
	if len(cfg.SecretKeys) > 0 {
		if err := d.keyring.createRing(cfg.SecretKeys); err != nil {
			return nil, fmt.Errorf("gossip: SecretKeys: %w", err)
		}
		mc.Keyring = d.keyring.ring
	}
	gate := newPacketGate(mc.Label, d.keyring.inUse, d.names, cfg.Logger, sink.count)
	d.tr = newGossipTransport(t, ip, port, gate, sink.count)
	mc.Transport = d.tr
	mc.Logger = bridgeLog(cfg.Logger, sink.count)
	if d.ml, err = memberlist.Create(mc); err != nil {
		_ = d.tr.Shutdown()
		return nil, fmt.Errorf("gossip: memberlist: %w", err)
	}
	go d.rejoin(cfg.Discovery.RejoinInterval)
	return d, nil
}

// config returns memberlist's configuration: always a label, no compression, and the
// incarnation in the name so that no name is ever used again.
func (d *discovery) config(cfg *Config) *memberlist.Config {
	mc := memberlist.DefaultLANConfig()
	mc.Name = d.self.Name + "-" + d.self.ID.String()
	mc.Label = "peerage-" + strconv.FormatUint(xxh3.HashString(cfg.Cluster), 16)
	mc.EnableCompression = false
	mc.DeadNodeReclaimTime = time.Second
	mc.ProbeInterval = cfg.Discovery.ProbeInterval
	mc.ProbeTimeout = cfg.Discovery.ProbeInterval / 2
	mc.GossipInterval = cfg.Discovery.GossipInterval
	mc.PushPullInterval = cfg.Discovery.PushPullInterval
	mc.SuspicionMaxTimeoutMult = 2
	mc.TCPTimeout = time.Second
	mc.Delegate = d
	mc.Events = d
	mc.Alive = d
	return mc
}

// NodeMeta implements memberlist.Delegate.
func (d *discovery) NodeMeta(limit int) []byte {
	meta := appendNode([]byte{metaVersion}, &d.self)
	if len(meta) > limit {
		// Roles are not needed to find a node: it sends them itself.
		bare := gossip.Node{ID: d.self.ID, Name: d.self.Name, Addr: d.self.Addr}
		meta = appendNode([]byte{metaVersion}, &bare)
	}
	return meta
}

func readMeta(meta []byte) (gossip.Node, error) {
	r := wire.NewReader(meta)
	if v := r.Byte(); v != metaVersion {
		return gossip.Node{}, fmt.Errorf("gossip: metadata of version %d", v)
	}
	n := readNode(r)
	return n, r.Done()
}

// NotifyMsg implements memberlist.Delegate; this package sends no user messages.
func (d *discovery) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d *discovery) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d *discovery) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (d *discovery) MergeRemoteState([]byte, bool) {}

// errMetaAddr: a node whose metadata names another address than memberlist would use.
var errMetaAddr = errors.New("gossip: a node at another address than its metadata names")

// NotifyAlive implements memberlist.AliveDelegate: nodes with unreadable metadata are
// ignored, and so are those above the bounds on names.
func (d *discovery) NotifyAlive(n *memberlist.Node) error {
	node, err := readMeta(n.Meta)
	if err != nil {
		return err
	}
	at, ok := addrPort(n.Addr, uint64(n.Port))
	if told, err := netip.ParseAddrPort(node.Addr); err == nil {
		ok = ok && netip.AddrPortFrom(told.Addr().Unmap(), told.Port()) == at
	}
	if !ok {
		return errMetaAddr
	}
	if err := d.names.admitName(n.Name, at, node.ID == d.self.ID || d.sink.member(&node), time.Now()); err != nil {
		d.sink.count.namesRefused.Add(1)
		return err
	}
	return nil
}

// NotifyJoin implements memberlist.EventDelegate.
func (d *discovery) NotifyJoin(n *memberlist.Node) {
	if node, err := readMeta(n.Meta); err == nil && node.ID != d.self.ID {
		d.mu.Lock()
		d.alive[node.Addr]++
		d.mu.Unlock()
		d.names.markAlive(n.Name)
		d.sink.count.discovered.Add(1)
		if !d.sink.found(found{node}) {
			d.sink.count.hintsDropped.Add(1)
		}
	}
}

// NotifyUpdate implements memberlist.EventDelegate: our metadata never changes.
func (d *discovery) NotifyUpdate(*memberlist.Node) {}

// NotifyLeave implements memberlist.EventDelegate.
func (d *discovery) NotifyLeave(n *memberlist.Node) {
	if node, err := readMeta(n.Meta); err == nil && node.ID != d.self.ID {
		d.mu.Lock()
		if d.alive[node.Addr]--; d.alive[node.Addr] <= 0 {
			delete(d.alive, node.Addr)
		}
		if len(d.alive) == 0 {
			select {
			case d.aloneSignal <- struct{}{}:
			default:
			}
		}
		d.mu.Unlock()
		d.names.markGone(n.Name, time.Now())
		d.sink.count.faded.Add(1)
	}
}

// setAddrs sets the addresses to join while memberlist does not have them alive.
func (d *discovery) setAddrs(addrs []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs = addrs
}

// rejoin periodically joins addresses that memberlist does not consider alive: memberlist
// does not reconnect a healed network by itself. While no other node is alive it tries
// quickly.
func (d *discovery) rejoin(every time.Duration) {
	defer close(d.ended)
	wait := every / 32
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-timer.C:
		}
		d.joinMissing()
		if d.otherAddrs() > 0 || wait > every {
			wait = every
		} else {
			wait = min(2*wait, every)
		}
		timer.Reset(wait + rand.N(wait/4+1))
	}
}

func (d *discovery) joinMissing() {
	d.mu.Lock()
	var missing []string
	for _, a := range d.addrs {
		if d.alive[a] == 0 && a != d.self.Addr {
			missing = append(missing, a)
		}
	}
	d.mu.Unlock()
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	if len(missing) > rejoinFanout {
		missing = missing[:rejoinFanout]
	}
	if len(missing) > 0 {
		// An error means that an address did not answer: the next round tries again.
		_, _ = d.ml.Join(missing)
	}
}

// otherAddrs returns at how many other addresses nodes are alive.
func (d *discovery) otherAddrs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.alive)
}

// leaveMax bounds how long Close waits until a node has received memberlist's leave
// message; leavePings is how many nodes are pinged for it at a time. They spread it.
const (
	leaveMax   = 100 * time.Millisecond
	leavePings = 3
)

// announceLeave makes memberlist announce that this node leaves. It does not wait;
// closeDiscovery does.
//
// memberlist's own Leave waits for several rounds of gossip, and sends nothing before the
// first round: too long for a stop that must take milliseconds. But pings also carry the
// messages that wait to be gossiped, and a node that has answered a ping has received
// them.
func (d *discovery) announceLeave() {
	d.leaving.Do(func() {
		go func() {
			defer close(d.left)
			// It returns an error because it does not wait: the message is in the queue.
			_ = d.ml.Leave(time.Nanosecond)
			d.pingSome()
		}()
	})
}

// pingSome pings some nodes, until the first has answered or none is left: a node that
// leaves at the same time may end before it answers. A ping without an answer lasts for
// memberlist's ProbeTimeout.
func (d *discovery) pingSome() {
	answered := make(chan error, leavePings)
	d.mu.Lock()
	pinged := 0
	for addr := range d.alive { // in any order
		if pinged++; pinged > leavePings {
			break
		}
		go func() {
			_, err := d.ml.Ping("", packetAddr(addr)) // "" matches any name
			answered <- err
		}()
	}
	d.mu.Unlock()
	late := time.NewTimer(leaveMax)
	defer late.Stop()
	for waiting := min(pinged, leavePings); waiting > 0; {
		select {
		case err := <-answered:
			if waiting--; err == nil {
				return
			}
		case <-d.aloneSignal:
			if d.otherAddrs() == 0 {
				return
			}
		case <-late.C:
			return // best effort: memberlist detects the leave without it
		}
	}
}

// packetAddr is an address for memberlist.
type packetAddr string

func (packetAddr) Network() string  { return "udp" }
func (a packetAddr) String() string { return string(a) }

// closeDiscovery ends discovery. memberlist's Shutdown does not wait for its goroutines: a probe
// in flight may last for some probe intervals, and uses nothing of ours but the closed
// transport.
func (d *discovery) closeDiscovery(left bool) {
	close(d.stop)
	if left {
		d.announceLeave()
	}
	d.leaving.Do(func() { close(d.left) })
	<-d.left
	_ = d.ml.Shutdown()
	<-d.ended
}

// health returns memberlist's Lifeguard score: 0 is healthy.
func (d *discovery) health() int { return d.ml.GetHealthScore() }

// advertised splits an address for memberlist, which wants an IP address.
func advertised(addr string) (net.IP, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: advertised address %q: %w", addr, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: advertised address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip, int(n), nil
	}
	ips, err := net.LookupIP(host)
	if err != nil || len(ips) == 0 {
		return nil, 0, fmt.Errorf("gossip: advertised address %q does not resolve: %w", addr, err)
	}
	return ips[0], int(n), nil
}
