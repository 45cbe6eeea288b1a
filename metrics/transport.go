package metrics

import (
	"slices"

	"github.com/peerage-go/peerage/internal/transport"
)

// classNames returns the labels of the transport's classes.
func classNames() map[transport.Class]string {
	return map[transport.Class]string{transport.Control: "control", transport.Message: "message", transport.Bulk: "bulk", transport.Data: "data"}
}

// transportSeries returns the series of the connections between peers.
func transportSeries() []series {
	return slices.Concat(connectionSeries(), handshakeSeries(), certificateSeries())
}

func connectionSeries() []series {
	names := classNames()
	return []series{
		gauge("transport_connections", "Open connections: outgoing by class, accepted ones in total.", func(s *scrape, emit emitter) {
			c := s.transportCounters()
			if c == nil {
				return
			}
			for class := transport.Control; class <= transport.Data; class++ {
				emit(float64(c.Class[class].Connections.Load()), "out", names[class])
			}
			emit(float64(c.Accepted.Load()), "in", "all")
		}, "direction", "class"),
		counter("transport_bytes_total", "Bytes of frames sent and received, framing included.", func(s *scrape, emit emitter) {
			s.eachClass(func(class string, c *transport.ClassCounters) {
				emit(float64(c.BytesSent.Load()), "sent", class)
				emit(float64(c.BytesReceived.Load()), "received", class)
			})
		}, "direction", "class"),
		counter("transport_frames_total", "Frames.", func(s *scrape, emit emitter) {
			s.eachClass(func(class string, c *transport.ClassCounters) {
				emit(float64(c.FramesSent.Load()), "sent", class)
				emit(float64(c.FramesReceived.Load()), "received", class)
			})
		}, "direction", "class"),
		counter("transport_connections_lost_total", "Outgoing connections that broke.", func(s *scrape, emit emitter) {
			s.eachClass(func(class string, c *transport.ClassCounters) { emit(float64(c.Lost.Load()), class) })
		}, "class"),
		gauge("transport_send_queue_bytes", "Bytes queued for all peers.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				for class := transport.Control; class <= transport.Data; class++ {
					emit(float64(c.QueueBytes(class)), names[class])
				}
			}
		}, "class"),
		gauge("transport_round_trip_seconds", "Longest round trip to a connected node, as the operating system measures it; it must stay below Ping. 0 if the system does not report it.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				emit(c.LongestRoundTrip().Seconds())
			}
		}),
		counter("transport_write_seconds_total", "Time that writers spent writing to sockets.", func(s *scrape, emit emitter) {
			s.eachClass(func(class string, c *transport.ClassCounters) { emit(float64(c.WriteNanos.Load())/1e9, class) })
		}, "class"),
		rare(counter("transport_frames_dropped_total", "Frames, packets and streams that were dropped, by reason.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				for r := range c.Drops {
					emit(float64(c.Drops[r].Load()), transport.DropReason(r).String())
				}
			}
		}, "reason")),
	}
}

// handshakeSeries returns the series of dials, handshakes and refused connections.
func handshakeSeries() []series {
	return []series{
		rare(counter("transport_handshake_failures_total", "Accepted connections that failed in the handshake, by reason.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				for f := range c.HandshakeFailures {
					emit(float64(c.HandshakeFailures[f].Load()), transport.Failure(f).String())
				}
			}
		}, "reason")),
		counter("transport_garbage_total", "Accepted connections that did not send a Peerage handshake.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				emit(float64(c.Garbage()))
			}
		}),
		rare(counter("transport_bad_frames_total", "Accepted connections closed because of an invalid frame after the handshake, by reason.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				emit(float64(c.OversizeFrames.Load()), "oversize")
				emit(float64(c.MalformedFrames.Load()), "malformed")
				emit(float64(c.CorruptFrames.Load()), "corrupt")
				emit(float64(c.HalfFrames.Load()), "half_frames")
			}
		}, "reason")),
		rare(counter("transport_beacons_total", "UDP probes that distinguish a crashed peer from a network that rejects traffic: asked, answered by the process, refused by a host or router.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				emit(float64(c.BeaconsAsked.Load()), "asked")
				emit(float64(c.BeaconsAnswered.Load()), "answered")
				emit(float64(c.BeaconsRefused.Load()), "refused")
			}
		}, "outcome")),
		counter("transport_fenced_connections_total", "Accepted connections closed because a later incarnation of the sender connected, or a view removed the sender.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				emit(float64(c.Fenced.Load()))
			}
		}),
		counter("transport_fenced_bytes_total", "Bytes received but unread on connections when they were fenced; Linux only.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				emit(float64(c.FencedBytes.Load()))
			}
		}),
		counter("transport_accept_errors_total", "Failures to accept connections, such as a lack of file descriptors.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				emit(float64(c.AcceptErrors.Load()))
			}
		}),
		rare(counter("transport_dial_refusals_total", "Handshakes of this node that the peer refused, by reason.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				for f := range c.DialRefusals {
					emit(float64(c.DialRefusals[f].Load()), transport.Failure(f).String())
				}
			}
		}, "reason")),
		counter("transport_dials_total", "Attempts to connect, by result.", func(s *scrape, emit emitter) {
			if c := s.transportCounters(); c != nil {
				failed := c.DialFailures.Load()
				emit(float64(c.Dials.Load()-min(failed, c.Dials.Load())), "ok")
				emit(float64(failed), "failed")
			}
		}, "result"),
	}
}

func certificateSeries() []series {
	return []series{
		gauge("transport_certificate_expiry_timestamp_seconds", "Unix time at which the certificate in use expires; absent without TLS.", func(s *scrape, emit emitter) {
			if cert, ok := s.certificateStats(); ok {
				emit(float64(cert.NotAfter.Unix()))
			}
		}),
		counter("transport_certificate_reloads_total", "Changes of the certificate files, by whether the new certificate was adopted.", func(s *scrape, emit emitter) {
			cert, _ := s.certificateStats()
			emit(float64(cert.Reloads), "ok")
			emit(float64(cert.ReloadFailures), "failed")
		}, "result"),
	}
}

// transportCounters returns the transport's counters, or nil without a transport or counters.
func (s *scrape) transportCounters() *transport.Counters {
	if t, ok := s.transport.(interface{ Counters() *transport.Counters }); ok {
		return t.Counters()
	}
	return nil
}

// certificateStats returns the state of the node's certificate; ok is false without TLS.
func (s *scrape) certificateStats() (stats transport.CertificateStats, ok bool) {
	if c := s.transportCounters(); c != nil {
		return c.Certificates()
	}
	return transport.CertificateStats{}, false
}

func (s *scrape) eachClass(f func(class string, c *transport.ClassCounters)) {
	c := s.transportCounters()
	if c == nil {
		return
	}
	names := classNames()
	for class := transport.Control; class <= transport.Data; class++ {
		f(names[class], &c.Class[class])
	}
}
