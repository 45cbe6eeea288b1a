package transport

import (
	"io"
	"testing"
)

func TestStreamsCarryBytesBothWays(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2)
		out, err := a.DialStream(b.Self().Addr, patience)
		if err != nil {
			w.Fatal(err)
		}
		in := <-b.Streams()
		if _, err := out.Write([]byte("ping")); err != nil {
			w.Fatal(err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(in, got); err != nil || string(got) != "ping" {
			w.Errorf("%q, %v", got, err)
		}
		if _, err := in.Write([]byte("pong")); err != nil {
			w.Fatal(err)
		}
		if _, err := io.ReadFull(out, got); err != nil || string(got) != "pong" {
			w.Errorf("%q, %v", got, err)
		}
		if err := out.Close(); err != nil {
			w.Error(err)
		}
		if _, err := in.Read(got); err != io.EOF {
			w.Errorf("end of stream: %v", err)
		}
		_ = in.Close()
		_ = in.Close()
		if n := b.Counters().Accepted.Load(); n != 0 {
			w.Errorf("%d streams are still counted", n)
		}
	})
}

func TestStreamsWithoutReaderAreClosed(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2, func(c *Config) { c.StreamsMax = 1 })
		for range 2 {
			s, err := a.DialStream(b.Self().Addr, patience)
			if err != nil {
				w.Fatal(err)
			}
			defer s.Close()
		}
		w.poll("counted", func() bool { return b.Counters().Drops[DropStreamQueue].Load() == 1 })
	})
}

func TestPacketsArriveOrAreCounted(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b := w.start(1), w.start(2, func(c *Config) { c.PacketsMax = 4 })
		send := func() {
			if err := a.WritePacket([]byte("hello"), b.Self().Addr); err != nil {
				w.Fatal(err)
			}
		}
		send()
		p := <-b.Packets()
		if string(p.Data) != "hello" || p.From.String() != a.Self().Addr || p.Time.IsZero() {
			w.Errorf("packet %+v", p)
		}
		for range 6 {
			send()
		}
		// A datagram is counted as received before it is queued or dropped.
		dropped := func() int { return int(b.Counters().Drops[DropPacketQueue].Load()) }
		w.poll("all seen", func() bool { return b.Counters().PacketsReceived.Load() == 7 && len(b.Packets())+dropped() == 6 })
		if n := dropped(); n != 2 {
			w.Errorf("%d dropped, want 2", n)
		}
		if err := a.WritePacket(make([]byte, 70000), b.Self().Addr); err != ErrFrameTooLarge {
			w.Errorf("a huge datagram: %v", err)
		}
		if err := a.WritePacket([]byte("x"), "127.0.0.1:1"); err != nil {
			w.Errorf("a datagram to nobody: %v", err)
		}
	})
}
