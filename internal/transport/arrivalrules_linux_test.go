package transport

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheAddressOfArrivalIsReadByItsKind checks that the address at which a datagram arrived is taken from
// the control message of its level and type, and from no other one.
func TestTheAddressOfArrivalIsReadByItsKind(t *testing.T) {
	four := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte{192, 0, 2, 1}})
	six := unix.PktInfo6(&unix.Inet6Pktinfo{Addr: netip.MustParseAddr("2001:db8::1").As16()})
	const levelAt, typeAt = 8, 12 // of a control message on 64 bits
	if unix.SizeofCmsghdr != 16 {
		t.Skip("control messages of another size")
	}
	as := func(b []byte, level, kind uint32) []byte {
		b = append([]byte(nil), b...)
		binary.NativeEndian.PutUint32(b[levelAt:], level)
		binary.NativeEndian.PutUint32(b[typeAt:], kind)
		return b
	}
	other := as(four, unix.SOL_SOCKET, unix.SO_TIMESTAMP)
	for name, c := range map[string]struct {
		oob  []byte
		want string // "" for none
	}{
		"IPv4":                  {four, "192.0.2.1"},
		"IPv6":                  {six, "2001:db8::1"},
		"behind another":        {append(append([]byte(nil), other...), four...), "192.0.2.1"},
		"nothing":               {nil, ""},
		"IPv4, another level":   {as(four, unix.SOL_SOCKET, unix.IP_PKTINFO), ""},
		"IPv4, another type":    {as(four, unix.IPPROTO_IP, unix.IP_TTL), ""},
		"IPv6, another level":   {as(six, unix.SOL_SOCKET, unix.IPV6_PKTINFO), ""},
		"IPv6, another type":    {as(six, unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT), ""},
		"IPv6, too short":       {as(four, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO), ""},
		"not a control message": {four[:5], ""},
	} {
		at, source := arrivedAt(c.oob)
		if want, _ := netip.ParseAddr(c.want); at != want || (source != nil) != (c.want != "") {
			t.Errorf("%s: arrived at %v, answered from %x", name, at, source)
		}
	}
}
