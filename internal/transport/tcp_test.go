package transport

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestTCPTakesOnePortForBoth(t *testing.T) {
	for range 20 {
		tr, err := NewTCP(TCPConfig{Config: Config{ID: 1, Name: "a", Cluster: "c"}, Listen: "127.0.0.1:0", Advertise: "example.org:0"})
		if err != nil {
			t.Fatal(err)
		}
		s := tr.net.(*sockets)
		tcp, udp := s.tcp.Addr().(*net.TCPAddr).Port, s.udp.LocalAddr().(*net.UDPAddr).Port
		if tcp != udp || tr.Self().Addr != fmt.Sprintf("example.org:%d", tcp) {
			t.Errorf("TCP %d, UDP %d, advertised %s", tcp, udp, tr.Self().Addr)
		}
		if err := tr.Close(); err != nil { // never started
			t.Error(err)
		}
	}
}

func TestTCPReportsProblems(t *testing.T) {
	good := Config{ID: 1, Name: "a", Cluster: "c"}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, c := range map[string]struct {
		cfg  TCPConfig
		want string
	}{
		"no port":         {TCPConfig{Config: good, Listen: "127.0.0.1"}, "Listen"},
		"no host":         {TCPConfig{Config: good, Listen: ":0"}, "Advertise"},
		"bad advertise":   {TCPConfig{Config: good, Advertise: "x"}, `Advertise "x"`},
		"long advertise":  {TCPConfig{Config: good, Advertise: strings.Repeat("x", 300) + ":1"}, "longer"},
		"in use":          {TCPConfig{Config: good, Listen: busy.Addr().String()}, "address already in use"},
		"invalid config":  {TCPConfig{}, "ID is zero"},
		"not our address": {TCPConfig{Config: good, Listen: "192.0.2.1:0"}, "cannot assign"},
	} {
		tr, err := NewTCP(c.cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
			_ = tr.Close()
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q does not say %q", name, err, c.want)
		}
	}
}
