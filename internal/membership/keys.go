package membership

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"

	"github.com/peerage-go/peerage/internal/discovery"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// RotateKeys replaces the keys that encrypt memberlist's gossip: the first encrypts
// from now on, all decrypt. This node never encrypts with a key that is neither the old
// nor the new first one, and never lacks a key that was in use before and stays. No
// datagram is lost when a new key is distributed in three steps, each done on every node
// before the next begins:
//
//	RotateKeys({old, new})   every node decrypts with the new key
//	RotateKeys({new, old})   every node encrypts with it
//	RotateKeys({new})        the old key is no longer valid
//
// Stats.Undecryptable grows if a node was left out. A node that gossips with a wrong key
// stays a member: memberlist only helps to find nodes.
//
// It fails with ErrSettings, changing nothing, or with ErrNoKeys: encryption cannot be
// turned on or off in a running node. The keys are copied. They are those of this
// incarnation; SecretKeys hands them to the next one. It does not block.
func (n *Node) RotateKeys(keys [][]byte) error {
	if err := joinProblems(func(r reporter) { CheckKeys(keys, r) }); err != nil {
		return err
	}
	switch {
	case len(n.cfg.SecretKeys) == 0:
		return ErrNoKeys
	case n.discovery == nil:
		return nil // there is no gossip
	}
	n.discovery.ReplaceKeys(keys)
	n.inbox.Put(call(func(l *loop) {
		l.keys.onRotation(&l.acts)
		l.publishKeys()
	}))
	n.recordEvent("keys rotated", 0, 0, "", slog.LevelDebug)
	return nil
}

// CheckKeys reports why RotateKeys would not take keys, without the keys.
func CheckKeys(keys [][]byte, report func(setting, value, why string)) {
	r := reporter(report)
	(&Config{SecretKeys: keys}).validateKeys(r)
	r.checkSetting(len(keys) > 0, "SecretKeys", 0, "encryption cannot be turned off in a running node")
}

// SecretKeys returns a copy of the present keys, with which the next incarnation must
// start. nil without encryption.
func (n *Node) SecretKeys() [][]byte {
	if n.discovery == nil || len(n.cfg.SecretKeys) == 0 {
		return discovery.CopyKeys(n.cfg.SecretKeys)
	}
	return n.discovery.SecretKeys()
}

// keyID identifies a SecretKey without revealing it: the start of an HMAC under the key
// itself, of the cluster's name and the sender's id. A receiver without the key can try
// guesses, as on any encrypted datagram; so keys must come from a random source.
type keyID struct{ a, b uint64 }

func newKeyID(key []byte, cluster string, sender gossip.NodeID) keyID {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("peerage key id 1\x00" + cluster + "\x00")) // never fails
	_, _ = mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(sender)))
	sum := mac.Sum(nil)
	return keyID{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
}

// keyIDs lists the sender's SecretKeys. The first key encrypts; none means that the
// sender's datagrams are in the clear.
type keyIDs struct {
	// Ask requests the receiver's ids.
	Ask bool
	IDs []keyID
}

func (*keyIDs) messageTag() byte { return tagKeyIDs }

func (m *keyIDs) codeFields(c *wire.Coder) {
	c.Bool(&m.Ask)
	wire.Slice(c, "key ids", &m.IDs, secretKeysMax, (*keyID).codeFields)
}

func (id *keyID) codeFields(c *wire.Coder) {
	wire.U64(c, &id.a)
	wire.U64(c, &id.b)
}

// agreement is the relation of a member's SecretKeys to this node's.
type agreement uint8

const (
	// keysUnknown: the member has not sent its ids, or runs no discovery.
	keysUnknown agreement = iota
	// keysAgree: each of the two decrypts the other's datagrams.
	keysAgree
	// keysPartly: they share a key, but one of them encrypts with a key that the other
	// lacks: a step of a rotation was skipped.
	keysPartly
	// keysDiffer: they share none.
	keysDiffer
)

// keyAgreement checks whether the members have the same SecretKeys as this node. Members
// exchange the ids of their keys when a control connection is established, when one of
// them becomes a member, and after RotateKeys. A node drops ids of non-members; since it
// requests them when it adopts the view with that member, none stay unknown.
//
// Membership works without memberlist, so differing keys stop no cluster; but nodes would
// not find each other after a partition. A node that shares no key with more than half of
// the members is not ready. So a wrong key stops a rolling update, and one wrong node
// does not stop a cluster of three.
//
// It is a plain state machine; the loop owns it.
type keyAgreement struct {
	self    gossip.NodeID
	cluster string
	// keys returns the keys in use; nil if this node runs no discovery.
	keys func() [][]byte
	// members holds the other members of the view. Invariant: differ counts those with
	// keysDiffer, answeredCount those without keysUnknown.
	members               map[gossip.NodeID]*memberKeys
	differ, answeredCount int
}

// memberKeys is the state of one member's keys.
type memberKeys struct {
	name, addr string
	ids        []keyID
	state      agreement
	// warned is the worst state that was logged.
	warned agreement
}

// requestIDs sends this node's ids to a member, and requests the member's.
func (k *keyAgreement) requestIDs(id gossip.NodeID, a *actions) { k.sendIDs(id, true, a) }

func (k *keyAgreement) sendIDs(to gossip.NodeID, ask bool, a *actions) {
	if k.keys == nil || k.members[to] == nil {
		return
	}
	m := &keyIDs{Ask: ask}
	for _, key := range k.keys() {
		m.IDs = append(m.IDs, newKeyID(key, k.cluster, k.self))
	}
	a.addMessage(to, m)
}

// onView adopts the members of a newer view; connected reports whether there is a control
// connection to one.
func (k *keyAgreement) onView(v *gossip.View, connected func(gossip.NodeID) bool, a *actions) {
	if k.keys == nil {
		return
	}
	before := k.members
	k.members = make(map[gossip.NodeID]*memberKeys, len(v.Members))
	k.differ, k.answeredCount = 0, 0
	for i := range v.Members {
		m := &v.Members[i]
		if m.ID == k.self {
			continue
		}
		if known := before[m.ID]; known != nil {
			k.members[m.ID] = known
			k.countState(known.state, 1)
			continue
		}
		k.members[m.ID] = &memberKeys{name: m.Name, addr: m.Addr}
		if connected(m.ID) {
			k.requestIDs(m.ID, a)
		}
	}
}

// onIDs handles the ids of a member, and answers if this node's are requested.
func (k *keyAgreement) onIDs(from gossip.NodeID, m *keyIDs, a *actions) {
	p := k.members[from]
	if p == nil {
		return // no member yet: requested again with the view that has it
	}
	p.ids = m.IDs
	k.compareMember(from, p, a)
	if m.Ask {
		k.sendIDs(from, false, a)
	}
}

// onRotation handles new keys of this node.
func (k *keyAgreement) onRotation(a *actions) {
	for id, p := range k.members { // order-free: each is compared by itself
		if p.state != keysUnknown {
			k.compareMember(id, p, a)
		}
		k.sendIDs(id, false, a)
	}
}

// compareMember compares the keys of a member with this node's, and warns once of each state that
// is worse than the former.
func (k *keyAgreement) compareMember(id gossip.NodeID, p *memberKeys, a *actions) {
	k.countState(p.state, -1)
	p.state = k.compareIDs(id, p.ids)
	k.countState(p.state, 1)
	switch {
	case p.state == keysAgree && p.warned != keysUnknown:
		p.warned = keysUnknown
		a.addNote("SecretKeys agree again", id, "")
	case p.state <= keysAgree || p.state <= p.warned:
	case p.state == keysPartly:
		p.warned = p.state
		a.warnOf("SecretKeys overlap, but a node encrypts with a key that another node lacks", id,
			p.where()+": discovery works in one direction only; finish each step of RotateKeys on every node before the next")
	default:
		p.warned = p.state
		a.warnOf("SecretKeys differ", id,
			p.where()+" shares no key with this node: they do not find each other by gossip, and a node that differs from more than half of the members is not ready; set the same SecretKeys on all nodes, or rotate with RotateKeys")
	}
}

func (p *memberKeys) where() string { return fmt.Sprintf("%q at %s", p.name, p.addr) }

func (k *keyAgreement) countState(s agreement, n int) {
	if s != keysUnknown {
		k.answeredCount += n
	}
	if s == keysDiffer {
		k.differ += n
	}
}

// compareIDs returns the relation of a member's key ids to this node's. The first id of each
// is that of the key that encrypts.
func (k *keyAgreement) compareIDs(from gossip.NodeID, theirs []keyID) agreement {
	var mine []keyID
	for _, key := range k.keys() {
		mine = append(mine, newKeyID(key, k.cluster, from))
	}
	switch {
	case len(mine) == 0 && len(theirs) == 0:
		return keysAgree
	case !slices.ContainsFunc(mine, func(id keyID) bool { return slices.Contains(theirs, id) }):
		return keysDiffer
	case slices.Contains(mine, theirs[0]) && slices.Contains(theirs, mine[0]):
		return keysAgree
	}
	return keysPartly
}

// mostDiffer reports whether this node shares no key with more than half of the members that
// have sent their ids.
func (k *keyAgreement) mostDiffer() bool { return 2*k.differ > k.answeredCount }

// KeysDiffer reports whether this node shares no SecretKey with more than half of the
// other members: it should not count as ready, since they do not find each other by
// gossip. A warning in the log names the members; Stats.KeysDiffer counts them. During a
// rotation the keys do not differ in this sense, as long as any is shared.
func (n *Node) KeysDiffer() bool { return n.keysDiffer.Load() }

// publishKeys publishes the results of the comparison of keys.
func (l *loop) publishKeys() {
	l.n.counters.keysDiffer.Store(int64(l.keys.differ))
	l.n.keysDiffer.Store(l.keys.mostDiffer())
}

// Limits of SharedSecrets, as those of package transport.
const (
	sharedSecretBytesMin = 32
	sharedSecretsMax     = 4
)

// derivedKeys returns the keys for memberlist's datagrams derived from shared secrets, in
// their order.
func derivedKeys(secrets [][]byte) [][]byte {
	var keys [][]byte
	for _, s := range secrets {
		key, err := hkdf.Key(sha256.New, s, nil, "peerage datagrams 1", 32)
		if err != nil {
			return nil // only for lengths that are not used here
		}
		keys = append(keys, key)
	}
	return keys
}
