package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/peerage-go/peerage/internal/wire"
)

// Failure is the way in which a handshake failed. The String forms are the labels of
// metrics. The numbers go over the wire and never change.
type Failure uint8

const (
	// FailOther: in any other way.
	FailOther Failure = iota
	// FailNotOurs: the first bytes are not those of a Peerage node.
	FailNotOurs
	// FailMalformed: the hello cannot be decoded.
	FailMalformed
	// FailOversize: the hello declares more bytes than it may have.
	FailOversize
	// FailTimeout: it was not complete in time.
	FailTimeout
	// FailHungUp: the far end hung up in its middle.
	FailHungUp
	// FailTLS: the TLS handshake failed.
	FailTLS
	// FailBusy: too many connections, or too many handshakes in flight.
	FailBusy
	// FailVersion: no wire version in common.
	FailVersion
	// FailCluster: another cluster name.
	FailCluster
	// FailSetting: a setting that must be equal differs.
	FailSetting
	// FailForgotten: the dialling incarnation was removed.
	FailForgotten
	// FailSuperseded: a newer connection of that peer and class is open.
	FailSuperseded
	// FailIdentity: the NodeID is bound to another certificate's key, or is our own.
	FailIdentity
	// FailDropped: the view of the refusing node has dropped the dialling node.
	FailDropped
	// FailSecret: the far end does not hold the shared secret.
	FailSecret
	failures
)

// String returns the failure as a label.
func (f Failure) String() string {
	if f >= failures {
		return "other"
	}
	return [failures]string{"other", "not_ours", "malformed", "oversize", "timeout", "hung_up", "tls", "busy",
		"version", "cluster", "setting", "forgotten", "superseded", "identity", "dropped", "secret"}[f]
}

// RefusedError carries the reason of a refused handshake, as sent by the refusing node.
type RefusedError struct {
	// Addr is the address that was dialled.
	Addr   string
	Code   Failure
	Reason string
	// Here and There are the wire versions of this node and of the refusing node.
	Here, There wire.Versions
}

func (e *RefusedError) Error() string {
	return "transport: refused by " + e.Addr + ": " + e.Reason
}

// refusal is the acceptor's reason, before it has an address.
type refusal struct {
	code   Failure
	reason string
	// setting is the name of the one that differs, of FailSetting.
	setting string
}

// incompatible compares two nodes' descriptions and returns why they cannot be peers, or
// nil. A node sends all settings that its version has, so a setting may be absent only on a
// node with other versions. The text suits both sides: each value has the name of its node.
func incompatible(here, there *identity) *refusal {
	if here.cluster != there.cluster {
		return &refusal{code: FailCluster, reason: fmt.Sprintf("cluster name is %q at %s, %q at %s", here.cluster, here, there.cluster, there)}
	}
	alike := here.Versions.Newest == there.Versions.Newest
	names := make([]string, 0, len(here.settings)+len(there.settings))
	for name := range here.settings {
		names = append(names, name)
	}
	for name := range there.settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		a, inA := here.settings[name]
		b, inB := there.settings[name]
		if inA != inB && !alike {
			continue // a setting that only the later version has
		}
		if a != b || inA != inB {
			return &refusal{code: FailSetting, setting: name, reason: fmt.Sprintf("setting %s is %s at %s, %s at %s",
				name, quoteOrUnset(a, inA), here, quoteOrUnset(b, inB), there)}
		}
	}
	return nil
}

func quoteOrUnset(v string, set bool) string {
	if !set {
		return "not set"
	}
	return fmt.Sprintf("%q", v)
}

// Errors of the first messages of a connection.
var (
	errBusy     = errors.New("transport: too many connections")
	errNotOurs  = errors.New("transport: not the first bytes of a Peerage node")
	errNameless = errors.New("transport: a setting without a name")
	errNoNodeID = errors.New("transport: a node without NodeID")
)

type tlsError struct{ err error }

func (e *tlsError) Error() string { return "transport: TLS handshake: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

type malformedError struct{ err error }

func (e *malformedError) Error() string { return "transport: malformed hello: " + e.err.Error() }
func (e *malformedError) Unwrap() error { return e.err }

// classify returns the kind of failure of a handshake that ended with err.
func classify(err error) Failure {
	var (
		limit     *wire.LimitError
		malformed *malformedError
		secure    *tlsError
	)
	switch {
	case errors.Is(err, errSecret), errors.Is(err, errSealed):
		return FailSecret
	case errors.Is(err, errNotOurs):
		return FailNotOurs
	case errors.As(err, &malformed):
		return FailMalformed
	case errors.As(err, &limit):
		return FailOversize
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return FailTimeout
	case errors.Is(err, errBusy):
		return FailBusy
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return FailHungUp
	case errors.As(err, &secure):
		return FailTLS
	}
	return FailOther
}

// brief returns the part of a refusal that is sent to a stranger. In the clear any host
// can ask, and a complete reason names the cluster, its settings and its nodes. The log
// of the refusing node has all of it.
func (r *refusal) brief(own wire.Versions) *refusal {
	const see = "; see the log of the node that refuses"
	text := "refused" + see
	switch r.code {
	case FailVersion:
		text = "wire versions are " + own.String() + " there" + see
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
