// Package discovery finds the nodes of a cluster with memberlist, on the transport of this
// module. It decides nothing: a found node is an unverified hint.
//
// memberlist accepts messages of any host, so a gate stands before it: packetGate admits
// datagrams by form, origin and rate, gatedReader bounds the states of streams, and
// nameTable bounds the names. All limits have counters.
package discovery

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/zeebo/xxh3"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/internal/wire"
)

// MetaVersion is the first byte of memberlist's node metadata: a form that no release changes.
// Fields are added to the node's body.
const MetaVersion = 2

// rejoinFanout is how many addresses one round of re-joining tries: memberlist
// dials them one after the other.
const rejoinFanout = 3

// Discovery runs memberlist on our transport. It finds nodes and spreads their addresses;
// it decides nothing. Its delegates run under memberlist's locks, so they copy, enqueue
// and return.
type Discovery struct {
	self    gossip.Node
	cfg     *Config
	sink    Sink
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
	// alone is set when no other node is alive.
	alone signal.Wake

	stop  chan struct{}
	ended chan struct{}
	// left is closed when memberlist has announced that it leaves, or never will.
	leaving sync.Once
	left    chan struct{}
}

// Config configures a Discovery. All fields but SecretKeys and Logger must be set.
type Config struct {
	Cluster string
	// SecretKeys encrypt the gossip: the first encrypts, all decrypt.
	SecretKeys [][]byte
	// ProbeInterval, GossipInterval and PushPullInterval are memberlist's.
	ProbeInterval, GossipInterval, PushPullInterval time.Duration
	// RejoinInterval is the interval at which missing addresses are joined again.
	RejoinInterval time.Duration
	Logger         *slog.Logger
	// CodeNode codes a node in memberlist's metadata.
	CodeNode func(n *gossip.Node, c *wire.Coder)
}

// Sink receives what Discovery finds. Its functions are called under memberlist's locks
// and must not block.
type Sink struct {
	// Found queues a hint, a node that memberlist considers alive, and reports whether
	// there was room.
	Found func(gossip.Node) bool
	// Member reports whether the view shows a node at its address.
	Member   func(*gossip.Node) bool
	Counters *Counters
}

// Start creates the memberlist and starts to join the addresses of SetAddrs. Close the
// Discovery.
func Start(cfg *Config, self gossip.Node, t transport.Transport, sink Sink) (*Discovery, error) {
	ip, port, err := advertised(self.Addr)
	if err != nil {
		return nil, err
	}
	d := &Discovery{
		self: self, cfg: cfg, sink: sink, names: newNameTable(), alive: map[string]int{}, alone: signal.NewWake(),
		stop: make(chan struct{}), ended: make(chan struct{}), left: make(chan struct{}),
	}
	mc := d.memberlistConfig()
	if len(cfg.SecretKeys) > 0 {
		if err := d.keyring.createRing(cfg.SecretKeys); err != nil {
			return nil, fmt.Errorf("gossip: SecretKeys: %w", err)
		}
		mc.Keyring = d.keyring.ring
	}
	gate := newPacketGate(mc.Label, d.keyring.inUse, d.names, cfg.Logger, sink.Counters)
	d.tr = newGossipTransport(t, ip, port, gate, sink.Counters)
	mc.Transport = d.tr
	mc.Logger = bridgeLog(cfg.Logger, sink.Counters)
	if d.ml, err = memberlist.Create(mc); err != nil {
		_ = d.tr.Shutdown()
		return nil, fmt.Errorf("gossip: memberlist: %w", err)
	}
	go d.rejoin(cfg.RejoinInterval)
	return d, nil
}

// memberlistConfig returns memberlist's configuration: always a label, no compression, and the
// incarnation in the name so that no name is ever used again.
func (d *Discovery) memberlistConfig() *memberlist.Config {
	mc := memberlist.DefaultLANConfig()
	mc.Name = d.self.Name + "-" + d.self.ID.String()
	mc.Label = "peerage-" + strconv.FormatUint(xxh3.HashString(d.cfg.Cluster), 16)
	mc.EnableCompression = false
	mc.DeadNodeReclaimTime = time.Second
	mc.ProbeInterval = d.cfg.ProbeInterval
	mc.ProbeTimeout = d.cfg.ProbeInterval / 2
	mc.GossipInterval = d.cfg.GossipInterval
	mc.PushPullInterval = d.cfg.PushPullInterval
	mc.SuspicionMaxTimeoutMult = 2
	mc.TCPTimeout = time.Second
	mc.Delegate = d
	mc.Events = d
	mc.Alive = d
	return mc
}

// NodeMeta implements memberlist.Delegate.
func (d *Discovery) NodeMeta(limit int) []byte {
	meta := d.appendMeta(&d.self)
	if len(meta) > limit {
		// Roles are not needed to find a node: it sends them itself.
		bare := gossip.Node{ID: d.self.ID, Name: d.self.Name, Addr: d.self.Addr, WireOldest: d.self.WireOldest, WireNewest: d.self.WireNewest}
		meta = d.appendMeta(&bare)
	}
	return meta
}

func (d *Discovery) appendMeta(n *gossip.Node) []byte {
	c := wire.NewEncoder([]byte{MetaVersion})
	d.cfg.CodeNode(n, c)
	return c.Encoded()
}

// ReadMeta decodes the node in memberlist's metadata.
func ReadMeta(meta []byte, codeNode func(*gossip.Node, *wire.Coder)) (n gossip.Node, err error) {
	c := wire.NewDecoder(meta)
	var version byte
	if wire.Byte(c, "version", &version, math.MaxUint8); version != MetaVersion {
		return n, fmt.Errorf("gossip: metadata of version %d", version)
	}
	codeNode(&n, c)
	return n, c.Err()
}

// NotifyMsg implements memberlist.Delegate; this package sends no user messages.
func (d *Discovery) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d *Discovery) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d *Discovery) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (d *Discovery) MergeRemoteState([]byte, bool) {}

// errMetaAddr: a node whose metadata names another address than memberlist would use.
var errMetaAddr = errors.New("gossip: a node at another address than its metadata names")

// NotifyAlive implements memberlist.AliveDelegate: nodes with unreadable metadata are
// ignored, and so are those above the bounds on names.
func (d *Discovery) NotifyAlive(n *memberlist.Node) error {
	node, err := ReadMeta(n.Meta, d.cfg.CodeNode)
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
	if err := d.names.admitName(n.Name, at, node.ID == d.self.ID || d.sink.Member(&node), time.Now()); err != nil {
		d.sink.Counters.NamesRefused.Add(1)
		return err
	}
	return nil
}

// NotifyJoin implements memberlist.EventDelegate.
func (d *Discovery) NotifyJoin(n *memberlist.Node) {
	if node, err := ReadMeta(n.Meta, d.cfg.CodeNode); err == nil && node.ID != d.self.ID {
		d.mu.Lock()
		d.alive[node.Addr]++
		d.mu.Unlock()
		d.names.markAlive(n.Name)
		d.sink.Counters.Discovered.Add(1)
		if !d.sink.Found(node) {
			d.sink.Counters.HintsDropped.Add(1)
		}
	}
}

// NotifyUpdate implements memberlist.EventDelegate: our metadata never changes.
func (d *Discovery) NotifyUpdate(*memberlist.Node) {}

// NotifyLeave implements memberlist.EventDelegate.
func (d *Discovery) NotifyLeave(n *memberlist.Node) {
	if node, err := ReadMeta(n.Meta, d.cfg.CodeNode); err == nil && node.ID != d.self.ID {
		d.mu.Lock()
		if d.alive[node.Addr]--; d.alive[node.Addr] <= 0 {
			delete(d.alive, node.Addr)
		}
		if len(d.alive) == 0 {
			d.alone.Set()
		}
		d.mu.Unlock()
		d.names.markGone(n.Name, time.Now())
		d.sink.Counters.SuspectedByGossip.Add(1)
	}
}

// SetAddrs sets the addresses to join while memberlist does not have them alive.
func (d *Discovery) SetAddrs(addrs []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs = addrs
}

// rejoin periodically joins addresses that memberlist does not consider alive: memberlist
// does not reconnect a healed network by itself. While no other node is alive it tries
// quickly.
func (d *Discovery) rejoin(every time.Duration) {
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
		if d.OtherAddrs() > 0 || wait > every {
			wait = every
		} else {
			wait = min(2*wait, every)
		}
		timer.Reset(wait + rand.N(wait/4+1))
	}
}

func (d *Discovery) joinMissing() {
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

// OtherAddrs returns at how many other addresses nodes are alive.
func (d *Discovery) OtherAddrs() int {
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

// AnnounceLeave makes memberlist announce that this node leaves. It does not wait;
// Close does.
//
// memberlist's own Leave waits for several rounds of gossip, and sends nothing before the
// first round: too long for a stop that must take milliseconds. But pings also carry the
// messages that wait to be gossiped, and a node that has answered a ping has received
// them.
func (d *Discovery) AnnounceLeave() {
	d.leaving.Do(func() {
		go func() {
			defer close(d.left)
			// It returns an error because it does not wait: the message is in the queue.
			_ = d.ml.Leave(time.Nanosecond)
			d.PingSome()
		}()
	})
}

// PingSome pings some nodes, until the first has answered or none is left: a node that
// leaves at the same time may end before it answers. A ping without an answer lasts for
// memberlist's ProbeTimeout.
func (d *Discovery) PingSome() {
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
		case <-d.alone:
			if d.OtherAddrs() == 0 {
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

// Close ends discovery. memberlist's Shutdown does not wait for its goroutines: a probe
// in flight may last for some probe intervals, and uses nothing of ours but the closed
// transport.
func (d *Discovery) Close(left bool) {
	close(d.stop)
	if left {
		d.AnnounceLeave()
	}
	d.leaving.Do(func() { close(d.left) })
	<-d.left
	_ = d.ml.Shutdown()
	<-d.ended
}

// Health returns memberlist's Lifeguard score: 0 is healthy.
func (d *Discovery) Health() int { return d.ml.GetHealthScore() }

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

// ReplaceKeys replaces the keys: the first encrypts from now on, all decrypt. Only for a
// Discovery that has keys.
func (d *Discovery) ReplaceKeys(keys [][]byte) { d.keyring.replaceKeys(keys) }

// SecretKeys returns a copy of the present keys. Only for a Discovery that has keys.
func (d *Discovery) SecretKeys() [][]byte { return d.keyring.copyOfKeys() }

// Names returns the number of names that memberlist holds.
func (d *Discovery) Names() int { return d.ml.NumMembers() }
