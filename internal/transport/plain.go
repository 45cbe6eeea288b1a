package transport

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"strconv"
)

// authenticated reports whether the far end of a connection has proven that it belongs
// to the cluster: by a certificate, or by the shared secret.
func authenticated(conn net.Conn) bool {
	switch conn.(type) {
	case secureConn, *sealedConn:
		return true
	}
	return false
}

// brief returns the part of a refusal that is sent to a stranger. In the clear any host
// can ask, and a complete reason names the cluster, its settings and its nodes. The log
// of the refusing node has all of it.
func (r *refusal) brief() *refusal {
	const see = "; see the log of the node that refuses"
	text := "refused" + see
	switch r.code {
	case FailVersion:
		text = "wire version is " + strconv.Itoa(wireVersion) + " there" + see
	case FailCluster:
		text = "another cluster" + see
	case FailSetting:
		text = "setting " + r.setting + " differs" + see
	case FailForgotten:
		text = "this incarnation was removed"
	case FailDropped:
		text = "the view has dropped this node"
	case FailSuperseded:
		text = "a newer connection or incarnation of this node stands"
	case FailIdentity:
		text = "the NodeID belongs to another node" + see
	case FailBusy:
		text = "too many connections"
	}
	return &refusal{code: r.code, reason: text}
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
func (e *engine) bindSource(conn net.Conn, h *hello) *refusal {
	if _, tls := conn.(secureConn); tls || h.purpose >= purpose(classes) {
		return nil
	}
	key, ok := sourceKey(conn)
	if !ok {
		return nil
	}
	r := e.keys.claim(h.ID, key)
	if r != nil && r.code == FailIdentity {
		r.reason = "node " + h.ID.String() + " connected from another host before; " + h.identity.String() + " connects from " + conn.RemoteAddr().String()
	}
	return r
}
