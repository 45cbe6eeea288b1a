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
	"sync"

	"github.com/peerage-go/peerage/gossip"
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
	if len(t.order) >= t.max && !t.evict() {
		return &refusal{code: FailBusy, reason: "too many nodes"}
	}
	t.byID[id] = key
	t.order = append(t.order, id)
	return nil
}

// evict removes the oldest binding that is not live. Live ones go to the end of the
// order.
func (t *keyTable) evict() bool {
	for range len(t.order) {
		id := t.order[0]
		t.order = t.order[1:]
		if !t.live(id) {
			delete(t.byID, id)
			return true
		}
		t.order = append(t.order, id)
	}
	return false
}

// side is the sending end of a connection.
type side byte

const (
	dialler  side = 'D'
	acceptor side = 'A'
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
