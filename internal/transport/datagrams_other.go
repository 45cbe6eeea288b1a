//go:build !linux

package transport

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// packetInfo does nothing: on this system the arrival address of datagrams is not
// determined. Without it no answer is a baseline, so refusals stay weak.
func packetInfo(_, _ string, _ syscall.RawConn) error { return nil }

// readPacket returns the next datagram for memberlist, and answers beacons meanwhile.
func (s *sockets) readPacket(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(b)
		if err != nil {
			return 0, nil, err
		}
		if !isBeacon(b[:n]) {
			return n, net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.Addr().Unmap(), from.Port())), nil
		}
		if answer := answerBeacon(b[:n], s.id, netip.Addr{}); answer != nil {
			_, _ = s.udp.WriteToUDPAddrPort(answer, from) // a lost answer is requested again
		}
	}
}

// inquire receives answers, but cannot determine the sender of a refusal.
func (s *sockets) inquire(ctx context.Context, p Peer, nonce beaconNonce) (q Inquiry) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", p.Addr)
	if err != nil {
		return q
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	q.Asked = conn.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if _, err := conn.Write(beacon(beaconQuestion, p.ID, nonce, netip.Addr{})); err != nil {
		return q
	}
	b := make([]byte, 2*beaconBytes)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return q
		}
		if got, at, ok := readBeacon(b[:n], beaconAnswer, p.ID); ok && got == nonce {
			q.Outcome, q.By = Answered, at
			return q
		}
	}
}
