package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// oobBytes is room for the control messages of one datagram.
const oobBytes = 512

// packetInfo makes a UDP socket report at which address of this host a datagram arrived.
func packetInfo(_, _ string, c syscall.RawConn) error {
	return controlSocket(c, func(fd int, v6 bool) error {
		if v6 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	})
}

// errorQueue makes a UDP socket keep ICMP errors, and report the TTL of received packets.
func errorQueue(_, _ string, c syscall.RawConn) error {
	return controlSocket(c, func(fd int, v6 bool) error {
		if v6 {
			return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1),
				unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1))
		}
		return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1))
	})
}

// controlSocket runs set on a socket, with its family.
func controlSocket(c syscall.RawConn, set func(fd int, v6 bool) error) error {
	var inner error
	err := c.Control(func(fd uintptr) {
		family, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		if inner = err; err == nil {
			inner = set(int(fd), family == unix.AF_INET6)
		}
	})
	return errors.Join(err, os.NewSyscallError("setsockopt", inner))
}

// readPacket returns the next datagram for memberlist, and answers beacons meanwhile.
func (s *sockets) readPacket(b []byte) (int, net.Addr, error) {
	oob := make([]byte, oobBytes)
	for {
		n, oobn, _, from, err := s.udp.ReadMsgUDPAddrPort(b, oob)
		if err != nil {
			return 0, nil, err
		}
		if !isBeacon(b[:n]) {
			return n, net.UDPAddrFromAddrPort(netip.AddrPortFrom(from.Addr().Unmap(), from.Port())), nil
		}
		at, source := arrivedAt(oob[:oobn])
		if answer := answerBeacon(b[:n], s.id, at); answer != nil {
			_, _, _ = s.udp.WriteMsgUDPAddrPort(answer, source, from) // a lost answer is requested again
		}
	}
}

// arrivedAt returns at which address a datagram arrived, and the control message that
// sends the answer from there.
func arrivedAt(oob []byte) (at netip.Addr, source []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return at, nil
	}
	for _, m := range msgs {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			local := [4]byte(m.Data[4:8])
			return netip.AddrFrom4(local), unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: local})
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			local := [16]byte(m.Data[:16])
			info := &unix.Inet6Pktinfo{Addr: local}
			at = netip.AddrFrom16(local)
			if at.IsLinkLocalUnicast() {
				info.Ifindex = binary.NativeEndian.Uint32(m.Data[16:20])
			}
			return at.Unmap(), unix.PktInfo6(info)
		}
	}
	return at, nil
}

// inquire asks over a socket of its own, connected to the peer, so that the kernel
// reports only the errors of its own datagrams to it.
func (s *sockets) inquire(ctx context.Context, p Peer, nonce beaconNonce) (q Inquiry) {
	conn, err := (&net.Dialer{Control: errorQueue}).DialContext(ctx, "udp", p.Addr)
	if err != nil {
		return q
	}
	udp := conn.(*net.UDPConn)
	defer func() { _ = udp.Close() }()
	defer context.AfterFunc(ctx, func() { _ = udp.SetReadDeadline(time.Unix(1, 0)) })()
	raw, err := udp.SyscallConn()
	if err != nil {
		return q
	}
	q.Asked = udp.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
	question := beacon(beaconQuestion, p.ID, nonce, netip.Addr{})
	if _, err := udp.Write(question); err != nil {
		return q
	}
	_ = raw.Read(func(fd uintptr) bool { // it ends with its deadline, without an outcome
		return q.listen(int(fd), p, nonce, question)
	})
	return q
}

// listen reads all waiting packets, and reports whether one is a valid response.
func (q *Inquiry) listen(fd int, p Peer, nonce beaconNonce, question []byte) bool {
	b, oob := make([]byte, 2048), make([]byte, oobBytes)
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err == nil {
			if e, ok := readICMP(oob[:oobn], b[:n]); ok && flags&unix.MSG_TRUNC == 0 && e.portUnreachable(question) {
				q.Outcome, q.By, q.TTL = PortUnreachable, e.offender, e.ttl
				return true
			}
			continue
		}
		n, oobn, _, _, err = unix.Recvmsg(fd, b, oob, unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			if got, at, ok := readBeacon(b[:n], beaconAnswer, p.ID); ok && got == nonce {
				q.Outcome, q.By, q.TTL = Answered, at, ttlOf(oob[:oobn])
				return true
			}
		case errors.Is(err, unix.EAGAIN):
			return false
		case errors.Is(err, unix.EBADF), errors.Is(err, unix.ENOTSOCK):
			return true // closed meanwhile
		}
		// Any other error announces one in the queue.
	}
}

// ttlOf returns the TTL, or hop limit, in control messages; 0 if there is none.
func ttlOf(oob []byte) int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range msgs {
		if len(m.Data) >= 4 && (m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL ||
			m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT) {
			return int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return 0
}

// Offsets in struct sock_extended_err; the offender's address follows it.
const (
	extendedOrigin = 4
	extendedType   = 5
	extendedCode   = 6
	extendedBytes  = 16
)

// readICMP reads an entry of the error queue; quoted is the part of the datagram in it.
// It reports false for errors other than ICMP.
func readICMP(oob, quoted []byte) (e icmpError, ok bool) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return e, false
	}
	for _, m := range msgs {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if !v4 && !v6 || len(m.Data) < extendedBytes+8 {
			continue
		}
		origin, offender := m.Data[extendedOrigin], m.Data[extendedBytes:]
		e = icmpError{v6: v6, typ: m.Data[extendedType], code: m.Data[extendedCode], ttl: ttlOf(oob), quoted: quoted}
		switch family := binary.NativeEndian.Uint16(offender); {
		case v4 && origin == unix.SO_EE_ORIGIN_ICMP && family == unix.AF_INET:
			e.offender = netip.AddrFrom4([4]byte(offender[4:8]))
			return e, true
		case v6 && origin == unix.SO_EE_ORIGIN_ICMP6 && family == unix.AF_INET6 && len(offender) >= 24:
			e.offender = netip.AddrFrom16([16]byte(offender[8:24]))
			return e, true
		}
	}
	return e, false
}
