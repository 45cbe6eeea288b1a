package transport

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// control returns a control message of the kernel.
func control(level, typ int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	head := binary.NativeEndian.AppendUint64(nil, uint64(unix.CmsgLen(len(data))))
	head = binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(head, uint32(level)), uint32(typ))
	copy(b, head)
	copy(b[unix.CmsgLen(0):], data)
	return b
}

// TestTheTTLIsFoundByItsKind checks that no other control message is read as a TTL.
func TestTheTTLIsFoundByItsKind(t *testing.T) {
	ttl := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	for name, c := range map[string]struct {
		oob  []byte
		want int
	}{
		"IPv4":               {control(unix.IPPROTO_IP, unix.IP_TTL, ttl(64)), 64},
		"IPv6":               {control(unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, ttl(63)), 63},
		"another of IPv4":    {control(unix.IPPROTO_IP, unix.IP_PKTINFO, ttl(64)), 0},
		"another of IPv6":    {control(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, ttl(64)), 0},
		"another level":      {control(unix.SOL_SOCKET, unix.IP_TTL, ttl(64)), 0},
		"type of the other":  {control(unix.SOL_SOCKET, unix.IPV6_HOPLIMIT, ttl(64)), 0},
		"too short":          {control(unix.IPPROTO_IP, unix.IP_TTL, []byte{1, 2, 3}), 0},
		"behind another":     {append(control(unix.IPPROTO_IP, unix.IP_PKTINFO, ttl(9)), control(unix.IPPROTO_IP, unix.IP_TTL, ttl(64))...), 64},
		"nothing":            {nil, 0},
		"no control message": {[]byte{1}, 0},
	} {
		if got := ttlOf(c.oob); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestOnlyICMPErrorsNameAnOffender checks which entries of the error queue are read as ICMP errors.
func TestOnlyICMPErrorsNameAnOffender(t *testing.T) {
	entry := func(origin, family byte, address []byte, length int) []byte {
		b := make([]byte, extendedBytes, 64)
		b[extendedOrigin], b[extendedType], b[extendedCode] = origin, 3, 4
		b = append(b, family, 0)
		return append(append(b, address...), make([]byte, 32)...)[:length]
	}
	v4 := append([]byte{0, 0}, 192, 0, 2, 1)
	six := netip.MustParseAddr("2001:db8::1").As16()
	v6 := append(make([]byte, 6), six[:]...)
	for name, c := range map[string]struct {
		level, typ int32
		data       []byte
		want       string // "" for none
	}{
		"IPv4":                  {unix.IPPROTO_IP, unix.IP_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP, unix.AF_INET, v4, extendedBytes+8), "192.0.2.1"},
		"IPv4, too short":       {unix.IPPROTO_IP, unix.IP_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP, unix.AF_INET, v4, extendedBytes+7), ""},
		"IPv4, a local error":   {unix.IPPROTO_IP, unix.IP_RECVERR, entry(unix.SO_EE_ORIGIN_LOCAL, unix.AF_INET, v4, 40), ""},
		"IPv4, no address":      {unix.IPPROTO_IP, unix.IP_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP, unix.AF_UNSPEC, v4, 40), ""},
		"IPv4, of another kind": {unix.IPPROTO_IP, unix.IP_TTL, entry(unix.SO_EE_ORIGIN_ICMP, unix.AF_INET, v4, 40), ""},
		"IPv6":                  {unix.IPPROTO_IPV6, unix.IPV6_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP6, unix.AF_INET6, v6, extendedBytes+24), "2001:db8::1"},
		"IPv6, too short":       {unix.IPPROTO_IPV6, unix.IPV6_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP6, unix.AF_INET6, v6, extendedBytes+23), ""},
		"IPv6, of IPv4":         {unix.IPPROTO_IPV6, unix.IPV6_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP, unix.AF_INET, v4, 40), ""},
		"IPv6, no address":      {unix.IPPROTO_IPV6, unix.IPV6_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP6, unix.AF_INET, v6, 40), ""},
		"IPv4, with an IPv6":    {unix.IPPROTO_IP, unix.IP_RECVERR, entry(unix.SO_EE_ORIGIN_ICMP6, unix.AF_INET6, v6, 40), ""},
	} {
		oob := append(control(c.level, c.typ, c.data), control(unix.IPPROTO_IP, unix.IP_TTL, []byte{64, 0, 0, 0})...)
		e, ok := readICMP(oob, []byte("quoted"))
		if ok != (c.want != "") || ok && (e.offender.String() != c.want || e.typ != 3 || e.code != 4 || e.v6 != (c.level == unix.IPPROTO_IPV6) || e.ttl != 64 || string(e.quoted) != "quoted") {
			t.Errorf("%s: %+v, %v", name, e, ok)
		}
	}
}
