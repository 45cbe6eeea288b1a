package protocol

import (
	"cmp"
	"strconv"

	"github.com/peerage-go/peerage/gossip"
)

// Token is the fencing token of one allocation of one shard (G2). Every later allocation of
// the shard has a greater one. The zero Token is below every token that was given out.
type Token struct {
	// Term is the term of the coordinator that allocated the shard: the epoch of the view in
	// which it took office.
	Term gossip.Epoch
	// Seq is the number of the allocation in that term. It has gaps: the coordinator also
	// numbers moves and messages.
	Seq uint64
}

// Compare returns -1, 0 or 1 as t is before, equal to or after u.
func (t Token) Compare(u Token) int {
	if c := cmp.Compare(t.Term, u.Term); c != 0 {
		return c
	}
	return cmp.Compare(t.Seq, u.Seq)
}

// Less reports whether t is before u.
func (t Token) Less(u Token) bool { return t.Compare(u) < 0 }

// IsZero reports whether t is the zero Token.
func (t Token) IsZero() bool { return t == Token{} }

// Max returns the later of t and u.
func (t Token) Max(u Token) Token {
	if t.Less(u) {
		return u
	}
	return t
}

// String returns term/seq.
func (t Token) String() string { return t.Term.String() + "/" + strconv.FormatUint(t.Seq, 10) }

// MarshalText writes the token as String does.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
