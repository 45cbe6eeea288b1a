package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/socket"
)

// TCPConfig configures NewTCP. The zero values of its own fields stand for their
// defaults.
type TCPConfig struct {
	Config

	// Listen is the host:port to listen on, TCP and UDP. Port 0 takes a free one;
	// Self().Addr has it. Default 127.0.0.1:0.
	Listen string
	// Advertise is the host:port at which other nodes reach this one, if it differs from
	// the listen address; required when Listen names no host, as in ":7101". Port 0 means
	// the port of Listen.
	Advertise string
	// Certificates secures all TCP connections, accepted and dialled, with mutual TLS
	// 1.3; the files are read again when they change. Without them and TLS everything
	// is sent in the clear. Datagrams are not covered either way: memberlist encrypts
	// those with its keyring.
	Certificates *Certificates
	// TLS does the same with a config of the application's; not together with
	// Certificates. It is used on both sides: set Certificates (or GetCertificate and
	// GetClientCertificate), RootCAs, ClientCAs and ClientAuth, which must ask for a
	// certificate. ServerName defaults to the host dialled. A node is bound to its first
	// key: its callbacks must not change the key while it runs.
	TLS *tls.Config
	// SharedSecrets authenticates every connection by a secret of at least 32 random
	// bytes that all nodes hold, where there are no certificates; not together with them.
	// Each side proves that it holds the secret, and every record carries a MAC, so no
	// other host can connect, pose as a node, or change what is sent. Nothing is
	// encrypted, and single nodes are not authenticated: any holder of the secret can
	// pose as any node. The first secret is used to dial, all are accepted: at most 4, so
	// that a new one is distributed in three restarts of every node ({old, new}, {new,
	// old}, {new}).
	SharedSecrets [][]byte
	// UnackedTimeout ends a connection on which sent bytes stay without
	// acknowledgement for so long (TCP_USER_TIMEOUT; Linux only), and one that is
	// idle and whose far end has vanished. Default 5 s. Without it a connection through a
	// partition hangs for a quarter of an hour, and for up to a minute after the heal; a
	// shorter one loses connections in long bursts of packet loss.
	UnackedTimeout time.Duration
}

const unackedDefault = 5 * time.Second

// TCP is the real Transport: one port, TCP for everything but memberlist's
// datagrams. Build it with NewTCP. All methods are safe for concurrent use.
type TCP struct {
	*engine
}

var _ Transport = (*TCP)(nil)

// NewTCP opens the port and returns a transport that accepts nothing before Start. Close
// it even if it was never started. Errors: those of Config.Validate and of net.Listen.
func NewTCP(cfg TCPConfig) (*TCP, error) {
	cfg.Config = cfg.Config.withDefaults()
	orDefault(&cfg.UnackedTimeout, unackedDefault)
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s, err := listen(&cfg)
	if err != nil {
		return nil, err
	}
	addr, err := advertised(cfg.Advertise, s.tcp.Addr().(*net.TCPAddr))
	if err == nil && cfg.Certificates != nil {
		err = cfg.Certificates.covers(addr)
	}
	if err != nil {
		return nil, errors.Join(err, s.closeListener(), s.closePackets())
	}
	e := newEngine(cfg.Config, addr, s)
	e.counters.certificates = e.credentials.useCertificate(&cfg)
	return &TCP{e}, nil
}

// validate is Config.Validate and the same for the fields of TCPConfig that can be
// checked without a socket.
func (c *TCPConfig) validate() error {
	err := c.Validate()
	if c.TLS != nil && c.Certificates != nil {
		return errors.Join(err, errors.New("transport: TLS and Certificates are both set: choose one"))
	}
	if len(c.SharedSecrets) > 0 && (c.TLS != nil || c.Certificates != nil) {
		err = errors.Join(err, errors.New("transport: SharedSecrets and certificates are both set: choose one"))
	}
	if c.TLS != nil {
		err = errors.Join(err, checkTLS(c.TLS, time.Now()))
	}
	return errors.Join(err, checkSecrets(c.SharedSecrets))
}

// advertised returns the advertised address of a node that listens on at.
func advertised(advertise string, at *net.TCPAddr) (string, error) {
	if advertise == "" {
		if at.IP.IsUnspecified() {
			return "", fmt.Errorf("transport: Listen is %v, every address of this host: set Advertise to the one that other nodes reach", at)
		}
		return at.String(), nil
	}
	host, port, err := net.SplitHostPort(advertise)
	if err != nil || host == "" {
		return "", fmt.Errorf("transport: Advertise %q is not host:port", advertise)
	}
	if port == "0" {
		port = strconv.Itoa(at.Port)
	}
	if addr := net.JoinHostPort(host, port); len(addr) <= addrBytesMax {
		return addr, nil
	}
	return "", fmt.Errorf("transport: Advertise is longer than %d bytes", addrBytesMax)
}

// sockets is the network of real sockets.
type sockets struct {
	// id is this node's, for beacons.
	id  gossip.NodeID
	tcp *net.TCPListener
	udp *net.UDPConn
	// server and client return the configs of TLS; nil without it.
	server *tls.Config
	client func(host string) *tls.Config
	// secrets are shared by all nodes; nil without.
	secrets [][]byte
	dialer  net.Dialer
}

// portTries bounds the search for a port that is free for both TCP and UDP.
const portTries = 32

// listen opens the same port for TCP and UDP.
func listen(cfg *TCPConfig) (*sockets, error) {
	keep := net.KeepAliveConfig{Enable: true, Idle: cfg.UnackedTimeout, Interval: time.Second, Count: 3}
	s := &sockets{id: cfg.ID, dialer: net.Dialer{KeepAliveConfig: keep, Control: socket.DialControl(cfg.UnackedTimeout)}}
	s.secure(cfg)
	lc := net.ListenConfig{KeepAliveConfig: keep}
	_, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("transport: Listen %q is not host:port: %w", cfg.Listen, err)
	}
	for try := 1; ; try++ {
		l, err := lc.Listen(context.Background(), "tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("transport: %w", err)
		}
		s.tcp = l.(*net.TCPListener)
		at := s.tcp.Addr().(*net.TCPAddr)
		packets := net.ListenConfig{Control: packetInfo}
		udp, err := packets.ListenPacket(context.Background(), "udp", (&net.UDPAddr{IP: at.IP, Port: at.Port, Zone: at.Zone}).String())
		if err == nil {
			s.udp = udp.(*net.UDPConn)
			return s, nil
		}
		err = errors.Join(fmt.Errorf("transport: %w", err), s.tcp.Close())
		if port != "0" || try == portTries {
			return nil, err
		}
	}
}

// secure sets the configs of TLS.
func (s *sockets) secure(cfg *TCPConfig) {
	for _, secret := range cfg.SharedSecrets {
		s.secrets = append(s.secrets, bytes.Clone(secret))
	}
	switch {
	case cfg.Certificates != nil:
		s.server, s.client = cfg.Certificates.server(), cfg.Certificates.client
	case cfg.TLS != nil:
		s.server = checkedServer(cfg.TLS)
		s.client = func(host string) *tls.Config {
			if cfg.TLS.ServerName != "" || cfg.TLS.InsecureSkipVerify {
				return cfg.TLS
			}
			named := cfg.TLS.Clone()
			named.ServerName = host
			return named
		}
	}
}

func (s *sockets) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := s.dialer.DialContext(ctx, "tcp", addr)
	if err == nil && s.secrets != nil {
		return &sealedConn{Conn: conn, secrets: s.secrets, dialled: true}, nil
	}
	if err != nil || s.client == nil {
		return conn, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secureConn{tls.Client(conn, s.client(host))}, nil
}

// secureConn is a TLS connection that closes without a close-notify, which could wait 5 s
// for a peer that does not read. It is not needed, since frames carry their length.
type secureConn struct{ *tls.Conn }

// Close closes the connection below.
func (c secureConn) Close() error { return c.NetConn().Close() }

func (s *sockets) accept() (net.Conn, error) {
	conn, err := s.tcp.Accept()
	if err == nil && s.secrets != nil {
		return &sealedConn{Conn: conn, secrets: s.secrets}, nil
	}
	if err != nil || s.server == nil {
		return conn, err
	}
	return secureConn{tls.Server(conn, s.server)}, nil
}

func (s *sockets) writePacket(b []byte, addr string) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		resolved, err := net.ResolveUDPAddr("udp", addr)
		if err != nil {
			return err
		}
		to = resolved.AddrPort()
	}
	_, err = s.udp.WriteToUDPAddrPort(b, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	return err
}

func (s *sockets) closeListener() error { return s.tcp.Close() }

func (s *sockets) closePackets() error { return s.udp.Close() }
