package namespace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/peerage-go/peerage/internal/harness"
)

// How delayed packets are told from the rest: by a mark, which a table of routes of its own
// sends to a device of its own.
const (
	delayDevice = "peeragedelay"
	delayMark   = 0x20000
	delayTable  = 77
	// delayQueueLength is how many packets the device holds until they are read.
	delayQueueLength = 10_000
	// packetMost is the largest packet, that of the loopback device.
	packetMost = 1<<16 - 1
)

// Delaying is a delay that is played. Kernels without netem and without queues to user space
// have TUN devices: the rules of the wall mark the packets of the paths, a route sends marked
// packets to a TUN device in place of the loopback device, and Delaying reads them there,
// holds them, and writes them back to the device. They come in as packets from outside do.
// A mark counts for a packet, so connections that were there before are delayed as well.
type Delaying struct {
	wall  *Wall
	path  Path
	tun   *os.File
	queue *delayQueue
	// ended is closed when no further packet will be marked.
	ended chan struct{}
	tasks sync.WaitGroup
	// drained is closed when no packet is held, after ended.
	drained chan struct{}
	// before and during are round trips on the path, before the delay and in it.
	before, during time.Duration
}

// DelayPaths delays packets of directions between places, until End.
func (w *Wall) DelayPaths(ctx context.Context, how Delay, paths []Path) (*Delaying, error) {
	d := &Delaying{wall: w, path: paths[0], queue: newDelayQueue(how), ended: make(chan struct{}), drained: make(chan struct{})}
	var err error
	if d.before, err = w.roundTrip(ctx, d.path, 0); err != nil {
		return nil, err
	}
	if d.tun, err = w.openDevice(ctx); err != nil {
		return nil, err
	}
	arrivals := make(chan arrival)
	d.tasks.Go(func() { d.read(arrivals) })
	d.tasks.Go(func() {
		defer close(d.drained)
		d.queue.pass(arrivals, d.ended, d.tun)
	})
	var b bytes.Buffer
	for _, p := range paths {
		for _, way := range []string{
			fmt.Sprintf("original ct mark %d", p.mark()),
			fmt.Sprintf("reply ct mark %d", Path{p.To, p.From}.mark()),
		} {
			fmt.Fprintf(&b, "add rule inet peerage delaying ct direction %s meta mark set %d\n", way, delayMark)
		}
	}
	if err := w.rules(ctx, b.String()); err != nil {
		_, err2 := d.End(context.WithoutCancel(ctx))
		return nil, errors.Join(err, err2)
	}
	return d, nil
}

// openDevice makes the device, its route, and the chain that marks packets. The device ends when
// it is closed. The rest stays, and without marks it does nothing.
func (w *Wall) openDevice(ctx context.Context) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("delays need TUN devices: /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(delayDevice)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the TUN device %s: %w", delayDevice, err), unix.Close(fd))
	}
	tun := os.NewFile(uintptr(fd), "/dev/net/tun") // after TUNSETIFF, so that it can be polled
	if err := w.routeDelayed(ctx); err != nil {
		return nil, errors.Join(err, tun.Close())
	}
	return tun, nil
}

// routeDelayed has marked packets sent to the device. It lets packets with addresses of this
// host come in from there, and keeps connection tracking from seeing each packet twice.
func (w *Wall) routeDelayed(ctx context.Context) error {
	settings := map[string]string{
		"conf/all/rp_filter": "0", "conf/" + delayDevice + "/rp_filter": "0",
		"conf/" + delayDevice + "/accept_local": "1", "conf/" + delayDevice + "/route_localnet": "1",
	}
	for name, value := range settings { // order-free: each is a file of its own
		if err := os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0o644); err != nil {
			return err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "link set dev %s up mtu %d txqueuelen %d\n", delayDevice, packetMost, delayQueueLength)
	fmt.Fprintf(&b, "route add default dev %s table %d\n", delayDevice, delayTable)
	if !w.routed { // the table of local addresses comes first otherwise
		fmt.Fprintf(&b, "rule add pref 2 lookup local\nrule del pref 0\nrule add pref 1 fwmark %d lookup %d\n", delayMark, delayTable)
	}
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	if w.routed {
		return nil
	}
	w.routed = true
	return w.rules(ctx, fmt.Sprintf(`add chain inet peerage delaying { type route hook output priority 0; policy accept; }
add chain inet peerage delayed { type filter hook prerouting priority raw; policy accept; }
add rule inet peerage delayed iifname %s notrack
`, delayDevice))
}

// read reads packets from the device until it is closed.
func (d *Delaying) read(arrivals chan<- arrival) {
	buf := make([]byte, packetMost)
	for {
		n, err := d.tun.Read(buf)
		if err != nil {
			return
		}
		select {
		case arrivals <- arrival{bytes.Clone(buf[:n]), time.Now()}:
		case <-d.drained:
			return
		}
	}
}

// RoundTrip measures the round trip of a datagram on a delayed path. A datagram that is lost
// leaves it unmeasured.
func (d *Delaying) RoundTrip(ctx context.Context) (err error) {
	d.during, err = d.wall.roundTrip(ctx, d.path, d.queue.delay.Base+d.queue.delay.Jitter)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// End lets new packets take the direct path, sends on what is held when it is due, and returns
// what became of the packets.
func (d *Delaying) End(ctx context.Context) (Delayed, error) {
	err := d.wall.rules(ctx, "flush chain inet peerage delaying")
	close(d.ended)
	<-d.drained
	err = errors.Join(err, d.tun.Close())
	d.tasks.Wait()
	did := d.queue.did
	did.BeforeMS, did.DuringMS = harness.Milliseconds(d.before), harness.Milliseconds(d.during)
	return did, err
}

// roundTripMost bounds a round trip, beyond the delay of both ways.
const roundTripMost = 2 * time.Second

// roundTrip measures the round trip of a datagram between two places, on sockets that the wall
// takes for those of their processes.
func (w *Wall) roundTrip(ctx context.Context, p Path, held time.Duration) (time.Duration, error) {
	there, err := listenPacketAt(ctx, p.To)
	if err != nil {
		return 0, err
	}
	defer there.Close()
	here, err := listenPacketAt(ctx, p.From)
	if err != nil {
		return 0, err
	}
	defer here.Close()
	echoed := make(chan error, 1)
	go func() {
		var b [1]byte
		_, from, err := there.ReadFrom(b[:])
		if err == nil {
			_, err = there.WriteTo(b[:], from)
		}
		echoed <- err
	}()
	began := time.Now()
	deadline := began.Add(2*held + roundTripMost)
	err = errors.Join(here.SetDeadline(deadline), there.SetDeadline(deadline))
	if err == nil {
		_, err = here.WriteTo([]byte{1}, there.LocalAddr())
	}
	if err == nil {
		_, _, err = here.ReadFrom(make([]byte, 1))
	}
	took := time.Since(began)
	if err = errors.Join(err, <-echoed); err != nil {
		return 0, fmt.Errorf("a round trip from %s to %s: %w", PlaceHost(p.From), PlaceHost(p.To), err)
	}
	return took, nil
}

// listenPacketAt opens a socket for datagrams at the address of a place, in its group.
func listenPacketAt(ctx context.Context, place int) (c net.PacketConn, err error) {
	inGroup(place, func() {
		c, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp4", PlaceHost(place)+":0")
	})
	return c, err
}

// inGroup has open make sockets that belong to the group of a place, by the thread's group of
// files.
func inGroup(place int, open func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, _ := unix.SetfsgidRetGid(int(placeGroup(place)))
	defer func() { _, _ = unix.SetfsgidRetGid(before) }()
	open()
}
