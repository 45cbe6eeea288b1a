package transport

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// The raw anchors run together with the benchmarks of the transport, on the same loopback:
// only the ratio is meaningful.
//
//	go test -run '^$' -bench . -benchtime 2s ./internal/transport

const (
	benchSenders = 64
	benchPayload = 100
)

// rawPair returns the two ends of a loopback connection.
func rawPair(b *testing.B) (dialled, accepted net.Conn) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if dialled, err = net.Dial("tcp", l.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if accepted, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled, accepted
}

// rawCount reads total frames.
func rawCount(b *testing.B, r *bufio.Reader, total int) {
	for range total {
		head, err := r.Peek(4)
		if err != nil {
			b.Error(err)
			return
		}
		if _, err := r.Discard(4 + int(binary.BigEndian.Uint32(head))); err != nil {
			b.Error(err)
			return
		}
	}
}

func reportRate(b *testing.B, frames int) {
	b.ReportMetric(float64(frames)/b.Elapsed().Seconds()/1e6, "Mframes/s")
}

// BenchmarkRawOneWay is one goroutine, a buffered writer, a buffered reader.
func BenchmarkRawOneWay(b *testing.B) {
	out, in := rawPair(b)
	var frame [4 + benchPayload]byte
	binary.BigEndian.PutUint32(frame[:], benchPayload)
	var done sync.WaitGroup
	done.Go(func() { rawCount(b, bufio.NewReaderSize(in, 64<<10), b.N) })
	b.ResetTimer()
	w := bufio.NewWriterSize(out, 64<<10)
	for range b.N {
		if _, err := w.Write(frame[:]); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	done.Wait()
	reportRate(b, b.N)
}

// BenchmarkRawOneWay64 is 64 goroutines that copy into one buffer under a lock, and
// one that writes it.
func BenchmarkRawOneWay64(b *testing.B) {
	send := rawSender64(b)
	b.ResetTimer()
	send(b.N)
	reportRate(b, b.N)
}

// rawSender64 returns a function that sends n frames from 64 goroutines over a bare
// connection, and waits until all have arrived. At most 1 MiB is queued. All calls share
// its memory.
func rawSender64(b *testing.B) (send func(n int)) {
	var (
		out, in    = rawPair(b)
		r          = bufio.NewReaderSize(in, 64<<10)
		mu         sync.Mutex
		buf, spare []byte
		room       = sync.NewCond(&mu)
		some       = make(chan struct{}, 1)
		payload    [benchPayload]byte
	)
	write := func(n int) {
		for left := n * (4 + benchPayload); left > 0; {
			<-some
			mu.Lock()
			batch := buf
			buf = spare[:0]
			room.Broadcast()
			mu.Unlock()
			if _, err := out.Write(batch); err != nil {
				b.Error(err)
				return
			}
			left -= len(batch)
			spare = batch
		}
	}
	queue := func() {
		mu.Lock()
		for len(buf) > 1<<20 {
			room.Wait()
		}
		buf = binary.BigEndian.AppendUint32(buf, benchPayload)
		buf = append(buf, payload[:]...)
		mu.Unlock()
		select {
		case some <- struct{}{}:
		default:
		}
	}
	return func(n int) {
		var all sync.WaitGroup
		all.Go(func() { rawCount(b, r, n) })
		all.Go(func() { write(n) })
		for s := range benchSenders {
			all.Go(func() {
				for range share(n, s) {
					queue()
				}
			})
		}
		all.Wait()
	}
}

// share splits n among the senders.
func share(n, sender int) int {
	k := n / benchSenders
	if sender < n%benchSenders {
		k++
	}
	return k
}

// benchPair returns two started transports that have learnt each other; got is called for
// each frame that reaches the second.
func benchPair(b *testing.B, got, back Handler) (x, y *TCP) {
	b.Helper()
	mk := func(id gossip.NodeID, name string, h Handler) *TCP {
		tr, err := NewTCP(TCPConfig{Config: Config{ID: id, Name: name, Cluster: "bench"}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { tr.Close() })
		tr.Handle(KindEntity, h)
		if err := tr.Start(); err != nil {
			b.Fatal(err)
		}
		return tr
	}
	x, y = mk(1, "x", back), mk(2, "y", got)
	x.Learn(y.Self())
	y.Learn(x.Self())
	return x, y
}

func BenchmarkOneWay64(b *testing.B) {
	send := sender64(b)
	b.ReportAllocs()
	b.ResetTimer()
	send(b.N)
	reportRate(b, b.N)
}

// sender64 connects two transports and returns a function that sends n frames from 64
// goroutines, and waits until all have arrived.
func sender64(b *testing.B) (send func(n int)) {
	var total atomic.Int64
	all := make(chan struct{}, 1)
	received := int64(0) // the reader's, which calls the handler for one frame after the other
	x, _ := benchPair(b, func(gossip.NodeID, []byte) {
		if received++; received == total.Load() {
			received = 0
			all <- struct{}{}
		}
	}, nil)
	total.Store(1)
	if err := x.Send(2, Message, KindEntity, nil); err != nil { // opens the connection
		b.Fatal(err)
	}
	<-all
	return func(n int) {
		total.Store(int64(n))
		var senders sync.WaitGroup
		for s := range benchSenders {
			senders.Go(func() {
				var payload [benchPayload]byte
				for range share(n, s) {
					for x.Send(2, Message, KindEntity, payload[:]) != nil {
						if err := x.WaitRoom(context.Background(), 2, Message); err != nil {
							b.Error(err)
							return
						}
					}
				}
			})
		}
		senders.Wait()
		<-all
	}
}

// reportTimes reports the median and the 99th percentile.
func reportTimes(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// echoEnv makes this test binary an echo server: "raw", "raw two", which takes frames
// from its first connection and answers on its second, or "peerage".
const echoEnv = "PEERAGE_TRANSPORT_ECHO"

// echoMain serves until its standard input ends. It prints its address first.
func echoMain(mode string) {
	if mode != "peerage" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Addr())
		go rawEcho(l, mode == "raw two")
	} else {
		tr, err := NewTCP(TCPConfig{Config: Config{ID: 2, Name: "y", Cluster: "bench"}})
		if err != nil {
			panic(err)
		}
		tr.Observe(func(ev PeerEvent) {
			if ev.Type == Accepted {
				tr.Learn(ev.Peer)
			}
		})
		tr.Handle(KindEntity, func(from gossip.NodeID, p []byte) {
			if err := tr.Send(from, Message, KindEntity, p); err != nil {
				panic(err)
			}
		})
		if err := tr.Start(); err != nil {
			panic(err)
		}
		fmt.Println(tr.Self().Addr)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// rawEcho returns the bytes of the first connection, on it or on the second.
func rawEcho(l net.Listener, two bool) {
	in, err := l.Accept()
	if err != nil {
		panic(err)
	}
	out := in
	if two {
		if out, err = l.Accept(); err != nil {
			panic(err)
		}
	}
	var frame [4 + benchPayload]byte
	for {
		if _, err := io.ReadFull(in, frame[:]); err != nil {
			return
		}
		if _, err := out.Write(frame[:]); err != nil {
			return
		}
	}
}

// startEcho starts an echo server in a process of its own and returns its address.
func startEcho(b *testing.B, mode string) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), echoEnv+"="+mode)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it ends with its input
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(addr)
}

// BenchmarkRawPingPong is one frame at a time between two processes, each of one
// goroutine that writes and reads.
func BenchmarkRawPingPong(b *testing.B) {
	out, err := net.Dial("tcp", startEcho(b, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	var frame [4 + benchPayload]byte
	times := make([]time.Duration, 0, 1<<20)
	for b.Loop() {
		since := time.Now()
		if _, err := out.Write(frame[:]); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(out, frame[:]); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(since))
	}
	reportTimes(b, times)
}

// BenchmarkPingPong is the same between two transports.
func BenchmarkPingPong(b *testing.B) {
	back := make(chan struct{}, 1)
	x, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "x", Cluster: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	x.Handle(KindEntity, func(gossip.NodeID, []byte) { back <- struct{}{} })
	if err := x.Start(); err != nil {
		b.Fatal(err)
	}
	x.Learn(Peer{ID: 2, Name: "y", Addr: startEcho(b, "peerage")})
	var payload [benchPayload]byte
	times := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		since := time.Now()
		if err := x.Send(2, Message, KindEntity, payload[:]); err != nil {
			b.Fatal(err)
		}
		<-back
		times = append(times, time.Since(since))
	}
	reportTimes(b, times)
}

// BenchmarkSend is the cost of queueing, without a writer.
func BenchmarkSend(b *testing.B) {
	tr, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "x", Cluster: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	tr.Learn(Peer{ID: 2, Name: "y", Addr: "127.0.0.1:1"})
	l := &tr.peers.peerOf(2).links[Message]
	var payload [benchPayload]byte
	b.ReportAllocs()
	for b.Loop() {
		if tr.Send(2, Message, KindEntity, payload[:]) != nil {
			l.mu.Lock()
			l.emptyLocked()
			l.mu.Unlock()
		}
	}
}
