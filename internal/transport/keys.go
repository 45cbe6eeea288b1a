package transport

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/fence"
)

// keyBytesMax bounds a public key and a signature in a handshake: RSA of 8192
// bits fits.
const keyBytesMax = 2048

// keyHash identifies a public key.
type keyHash [32]byte

func hashKey(spki []byte) keyHash { return sha256.Sum256(spki) }

// String returns the first bytes, as in logs.
func (h keyHash) String() string { return hex.EncodeToString(h[:8]) }

// keyTable binds each NodeID to a public key, so that with TLS no holder of another
// certificate can act as that node.
//
// The first handshake with a NodeID, in either direction and for any purpose, binds it to
// the public key of the certificate shown; from then on every handshake with that NodeID
// must show that key, or it is refused. A NodeID is one incarnation, so the binding never
// needs to change, apart from one case: certificates are renewed while the process lives,
// often with a new key. A node whose files have a new key keeps proving that it holds the
// key with which it started (keyProof), and stays bound to that.
//
//	key(NodeID) = the proven first key, or else that of the certificate shown
//	bound to none:     bind
//	bound to another:  refuse
//
// Bindings are kept for as long as there is room. The oldest goes first, but never that
// of a node that this one has learnt or that is connected to it; a removed node is
// refused as forgotten in any case.
//
// Tried in thought and rejected: to bind to the names in the certificate instead.
// They stay the same in a renewal, but clusters often have one name for all nodes.
type keyTable struct {
	// live reports nodes whose binding must stay. It is called with mu.
	live func(gossip.NodeID) bool
	max  int

	mu sync.Mutex
	// Invariant: order holds the keys of byID, each once; len(order) <= max.
	byID  map[gossip.NodeID]keyHash
	order []gossip.NodeID
}

func newKeyTable(max int, live func(gossip.NodeID) bool) *keyTable {
	return &keyTable{live: live, max: max, byID: make(map[gossip.NodeID]keyHash)}
}

// claim binds id to key, or returns why it must not be.
func (t *keyTable) claim(id gossip.NodeID, key keyHash) *refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bound, ok := t.byID[id]; ok {
		if bound == key {
			return nil
		}
		return &refusal{code: FailIdentity, reason: fmt.Sprintf("node %v is bound to the certificate key %v, %v was shown", id, bound, key)}
	}
	if len(t.order) >= t.max && !t.evictOldest() {
		return &refusal{code: FailBusy, reason: "too many nodes"}
	}
	t.byID[id] = key
	t.order = append(t.order, id)
	return nil
}

// evictOldest removes the oldest binding that is not live.
func (t *keyTable) evictOldest() (ok bool) {
	var gone gossip.NodeID
	if t.order, gone, ok = fence.EvictOldest(t.order, t.live); ok {
		delete(t.byID, gone)
	}
	return ok
}

// side is the sending end of a connection.
type side byte

const (
	dialling  side = 'D'
	accepting side = 'A'
)

// keyProof proves, inside a TLS connection, that its sender holds the private key of
// another certificate than the one shown: the one with which it started. The zero value
// proves nothing; most handshakes carry it. The signed statement contains a secret of
// this connection, so it proves nothing on another one.
type keyProof struct {
	// key is the public key as in a certificate (SubjectPublicKeyInfo).
	key, signature []byte
}

// statement returns the bytes that a proof signs.
func statement(s tls.ConnectionState, who side, id gossip.NodeID) ([]byte, error) {
	b := append([]byte("peerage key proof 1"), byte(who))
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	secret, err := s.ExportKeyingMaterial("EXPERIMENTAL peerage", nil, 32)
	return append(b, secret...), err
}

// prove signs with the key of first.
func prove(first *certificate, s tls.ConnectionState, who side, id gossip.NodeID) (keyProof, error) {
	b, err := statement(s, who, id)
	if err != nil {
		return keyProof{}, err
	}
	signer := first.PrivateKey.(crypto.Signer) // parseCertificate has checked that
	sum := sha256.Sum256(b)
	p := keyProof{key: first.leaf.RawSubjectPublicKeyInfo}
	switch signer.Public().(type) {
	case ed25519.PublicKey:
		p.signature, err = signer.Sign(rand.Reader, b, crypto.Hash(0))
	case *rsa.PublicKey:
		p.signature, err = signer.Sign(rand.Reader, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	default:
		p.signature, err = signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	return p, err
}

var errProof = errors.New("its proof of an earlier key does not hold")

// verify returns the key that p proves.
func (p keyProof) verify(s tls.ConnectionState, who side, id gossip.NodeID) (keyHash, error) {
	b, err := statement(s, who, id)
	if err != nil {
		return keyHash{}, err
	}
	if !p.signs(b) {
		return keyHash{}, errProof
	}
	return hashKey(p.key), nil
}

// signs reports whether p's signature is one of b by p's key.
func (p keyProof) signs(b []byte) bool {
	key, err := x509.ParsePKIXPublicKey(p.key)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(b)
	switch k := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, b, p.signature)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], p.signature)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(k, crypto.SHA256, sum[:], p.signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	return false
}

// credentials present this node in handshakes, and bind the NodeIDs of other nodes to their
// keys.
type credentials struct {
	self identity
	keys *keyTable
	// certificates are this node's own, nil if they are not read from files; first is the
	// one in use when this node started.
	certificates *Certificates
	first        *certificate
	// judgesHost: a certificate must name the host of its node's advertised address.
	judgesHost bool
	// authenticated is set when connections prove the identity of the peer.
	authenticated bool
}

// useCertificate sets this node's own certificate, and returns the source of its figures;
// nil without a certificate.
func (c *credentials) useCertificate(cfg *TCPConfig) (stats func() CertificateStats) {
	c.authenticated = cfg.Certificates != nil || cfg.TLS != nil
	c.judgesHost = asksForHost(cfg)
	if cfg.Certificates != nil {
		c.certificates, c.first = cfg.Certificates, cfg.Certificates.current()
		stats = cfg.Certificates.Stats
		c.keys.claim(c.self.ID, c.first.key)
	} else if leaf := staticLeaf(cfg.TLS); leaf != nil {
		stats = func() CertificateStats { return CertificateStats{NotAfter: leaf.NotAfter} }
		c.keys.claim(c.self.ID, hashKey(leaf.RawSubjectPublicKeyInfo))
	}
	return stats
}

// asksForHost reports whether a node's certificate must name the host at which the node
// is reached: unless the application has set another name for its nodes, or verifies
// certificates itself.
func asksForHost(cfg *TCPConfig) bool {
	if cfg.Certificates != nil {
		return cfg.Certificates.files.Name == ""
	}
	t := cfg.TLS
	return t != nil && t.ServerName == "" && !t.InsecureSkipVerify && t.VerifyConnection == nil &&
		t.VerifyPeerCertificate == nil && t.GetConfigForClient == nil
}

// presentOn returns this node's description of itself on conn.
func (c *credentials) presentOn(conn net.Conn, who side) (identity, error) {
	id := c.self
	t, ok := conn.(secureConn)
	if !ok || c.first == nil || c.first.key == c.certificates.current().key {
		return id, nil
	}
	var err error
	if id.proof, err = prove(c.first, t.ConnectionState(), who, id.ID); err != nil {
		err = &tlsError{err}
	}
	return id, err
}

// identify binds the NodeID of the far end to its key, or returns why it must not be.
func (c *credentials) identify(conn net.Conn, id *identity, who side) *refusal {
	key, r := c.keyOf(conn, id, who)
	if r != nil || key == (keyHash{}) {
		return r
	}
	return c.keys.claim(id.ID, key)
}

// keyOf returns the key of which the far end has proven possession; zero without TLS.
func (c *credentials) keyOf(conn net.Conn, id *identity, who side) (key keyHash, r *refusal) {
	t, ok := conn.(secureConn)
	if !ok {
		return key, nil
	}
	s := t.ConnectionState()
	if len(s.PeerCertificates) == 0 {
		return key, &refusal{code: FailIdentity, reason: fmt.Sprintf("%s has shown no certificate", id)}
	}
	if r := c.namesHost(s.PeerCertificates[0], id); r != nil {
		return key, r
	}
	if len(id.proof.key) > 0 {
		var err error
		if key, err = id.proof.verify(s, who, id.ID); err != nil {
			return key, &refusal{code: FailIdentity, reason: fmt.Sprintf("%s: %v", id, err)}
		}
		return key, nil
	}
	return hashKey(s.PeerCertificates[0].RawSubjectPublicKeyInfo), nil
}

// namesHost refuses a far end whose certificate does not name the host of its advertised
// address. The dialling side has already checked the dialled host; namesHost checks the
// advertised one, on both sides.
func (c *credentials) namesHost(cert *x509.Certificate, id *identity) *refusal {
	if !c.judgesHost {
		return nil
	}
	host, _, err := net.SplitHostPort(id.Addr)
	if err == nil {
		err = cert.VerifyHostname(host)
	}
	if err != nil {
		return &refusal{code: FailIdentity, reason: fmt.Sprintf("the certificate shown does not stand for %s: %v", id, err)}
	}
	return nil
}

// sourceKey replaces the key of a certificate if there is none: it is the host from which
// a node connects. A NodeID is no secret, so in the clear any host that has learnt one
// could otherwise pose as that node. It proves nothing with a proxy or a NAT in between,
// nor against attackers that can use the host's address.
func sourceKey(conn net.Conn) (key keyHash, ok bool) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return key, false
	}
	return sha256.Sum256([]byte("host " + at.Addr().Unmap().String())), true
}

// bindSource binds the NodeID of a node that opens a connection of a class to the host
// from which it connects, if no certificate binds it, or returns why it must not be.
// Probes and raw streams go to other addresses than the advertised one, and so may arrive
// from other hosts.
func (c *credentials) bindSource(conn net.Conn, h *hello) *refusal {
	if _, tls := conn.(secureConn); tls || h.purpose >= purpose(classes) {
		return nil
	}
	key, ok := sourceKey(conn)
	if !ok {
		return nil
	}
	r := c.keys.claim(h.ID, key)
	if r != nil && r.code == FailIdentity {
		r.reason = "node " + h.ID.String() + " connected from another host before; " + h.identity.String() + " connects from " + conn.RemoteAddr().String()
	}
	return r
}
