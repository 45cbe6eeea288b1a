package transport

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// These two play ours and the raw one in turns, in one run, so that whatever else the
// machine does hits both: only their ratio means something on a machine that is shared.

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

// BenchmarkPingPongToRaw: one frame at a time between two processes. "to-raw" is our
// median over the raw one.
func BenchmarkPingPongToRaw(b *testing.B) {
	const turn = 500
	out, err := net.Dial("tcp", startEcho(b, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	back := make(chan struct{}, 1)
	x, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "x", Cluster: "bench"}})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	x.Handle(KindEntity, func(view.NodeID, []byte) { back <- struct{}{} })
	if err := x.Start(); err != nil {
		b.Fatal(err)
	}
	x.Learn(Peer{ID: 2, Name: "y", Addr: startEcho(b, "peerage")})
	var frame [4 + benchPayload]byte
	timed := func(n int, one func() error) []time.Duration {
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
	var ours, raw []time.Duration
	b.ResetTimer()
	for left := b.N; left > 0; left -= turn {
		n := min(left, turn)
		raw = append(raw, timed(n, func() error {
			if _, err := out.Write(frame[:]); err != nil {
				return err
			}
			_, err := io.ReadFull(out, frame[:])
			return err
		})...)
		ours = append(ours, timed(n, func() error {
			err := x.Send(2, Message, KindEntity, frame[4:])
			if err == nil {
				<-back
			}
			return err
		})...)
	}
	slices.Sort(ours)
	slices.Sort(raw)
	a, r := ours[len(ours)/2], raw[len(raw)/2]
	b.ReportMetric(float64(a.Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(r.Nanoseconds())/1e3, "raw-p50-µs")
	b.ReportMetric(float64(a)/float64(r), "to-raw")
}
