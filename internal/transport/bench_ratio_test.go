package transport

import (
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// These two benchmarks alternate between the transport and a raw connection in one run, so
// that other load affects both: on a shared machine only the ratio is meaningful.

// BenchmarkOneWay64ToRaw: 64 senders, frames of 100 bytes, as many of one kind as of the
// other. "of-raw" is our rate over the raw one.
func BenchmarkOneWay64ToRaw(b *testing.B) {
	const turn = 100_000
	sendRaw, send := rawSender64(b), sender64(b)
	var ours, raw time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		n := min(left, turn)
		began := time.Now()
		sendRaw(n)
		middle := time.Now()
		send(n)
		raw, ours = raw+middle.Sub(began), ours+time.Since(middle)
	}
	b.ReportMetric(float64(b.N)/ours.Seconds()/1e6, "Mframes/s")
	b.ReportMetric(float64(b.N)/raw.Seconds()/1e6, "raw-Mframes/s")
	b.ReportMetric(raw.Seconds()/ours.Seconds(), "of-raw")
}

// BenchmarkPingPongToRaw: one frame at a time between two processes, medians.
//
// "to-raw" is the ratio of the transport, where the handler of a frame sends the next one,
// to a raw connection, where the goroutine that has read a frame writes the next one; no
// goroutine wakes another. "waiting-to-raw" is the same with a caller on another goroutine
// that waits for the answer, on both sides of the ratio. "waiting-to-bare": such a caller
// of ours to the raw one without. "waiting-to-two": to the raw one with such a caller, and
// with a connection for each direction as ours has.
func BenchmarkPingPongToRaw(b *testing.B) {
	const turn = 500
	ours, waiting := pingOurs(b)
	kinds := []struct {
		name string
		ping pinger
	}{{"p50", ours}, {"raw-p50", pingRaw(b)}, {"waiting", waiting},
		{"raw-waiting", pingRawWaiting(b, "raw")}, {"raw-two", pingRawWaiting(b, "raw two")}}
	times := make([][]time.Duration, len(kinds))
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		for i, k := range kinds {
			times[i] = append(times[i], k.ping(min(left, turn))...)
		}
	}
	p50 := make([]float64, len(kinds))
	for i, k := range kinds {
		slices.Sort(times[i])
		p50[i] = float64(times[i][len(times[i])/2].Nanoseconds()) / 1e3
		b.ReportMetric(p50[i], k.name+"-µs")
	}
	b.ReportMetric(p50[0]/p50[1], "to-raw")
	b.ReportMetric(p50[2]/p50[3], "waiting-to-raw")
	b.ReportMetric(p50[2]/p50[1], "waiting-to-bare")
	b.ReportMetric(p50[2]/p50[4], "waiting-to-two")
}

// pinger makes n round trips, one after the other, and returns how long each took.
type pinger func(n int) []time.Duration

// timed calls one n times.
func timed(b *testing.B, n int, one func() error) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		since := time.Now()
		if err := one(); err != nil {
			b.Fatal(err)
		}
		times[i] = time.Since(since)
	}
	return times
}

// dialEcho opens a connection that the benchmark closes.
func dialEcho(b *testing.B, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// pingRaw writes and reads on one connection, by one goroutine.
func pingRaw(b *testing.B) pinger {
	conn := dialEcho(b, startEcho(b, "raw"))
	var frame [4 + benchPayload]byte
	return func(n int) []time.Duration {
		return timed(b, n, func() error {
			if _, err := conn.Write(frame[:]); err != nil {
				return err
			}
			_, err := io.ReadFull(conn, frame[:])
			return err
		})
	}
}

// pingRawWaiting leaves the reading to another goroutine and waits for it.
func pingRawWaiting(b *testing.B, mode string) pinger {
	addr := startEcho(b, mode)
	out := dialEcho(b, addr)
	in := out
	if mode == "raw two" {
		in = dialEcho(b, addr)
	}
	back := make(chan struct{}, 1)
	go func() {
		var frame [4 + benchPayload]byte
		for {
			if _, err := io.ReadFull(in, frame[:]); err != nil {
				return
			}
			back <- struct{}{}
		}
	}()
	var frame [4 + benchPayload]byte
	return func(n int) []time.Duration {
		return timed(b, n, func() error {
			if _, err := out.Write(frame[:]); err != nil {
				return err
			}
			<-back
			return nil
		})
	}
}

// pingOurs sends through a transport: the next frame by the handler of the former, or by a
// caller that waits for the handler.
func pingOurs(b *testing.B) (ours, waiting pinger) {
	x, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "x", Cluster: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { x.Close() })
	var onFrame atomic.Pointer[func()]
	x.Handle(KindEntity, func(gossip.NodeID, []byte) { (*onFrame.Load())() })
	if err := x.Start(); err != nil {
		b.Fatal(err)
	}
	x.Learn(Peer{ID: 2, Name: "y", Addr: startEcho(b, "peerage")})
	var payload [benchPayload]byte
	send := func() error { return x.Send(2, Message, KindEntity, payload[:]) }
	ours = func(n int) []time.Duration {
		times := make([]time.Duration, 0, n)
		done := make(chan error, 1)
		since := time.Now()
		next := func() {
			times = append(times, time.Since(since))
			if len(times) == n {
				done <- nil
				return
			}
			since = time.Now()
			if err := send(); err != nil {
				done <- err
			}
		}
		onFrame.Store(&next)
		err := send()
		if err == nil {
			err = <-done
		}
		if err != nil {
			b.Fatal(err)
		}
		return times
	}
	back := make(chan struct{}, 1)
	wake := func() { back <- struct{}{} }
	waiting = func(n int) []time.Duration {
		onFrame.Store(&wake)
		return timed(b, n, func() error {
			err := send()
			if err == nil {
				<-back
			}
			return err
		})
	}
	return ours, waiting
}
