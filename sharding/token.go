package sharding

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Token is the fencing token of one allocation of one shard. Every later allocation of
// the shard has a greater one. The zero Token is below every token that was given out. Tokens
// are plain values, which any goroutine may use.
type Token struct {
	// Term is the term of the coordinator that allocated the shard: the epoch of the view in
	// which it took office.
	Term gossip.Epoch
	// Seq is the number of the allocation in that term. It has gaps: the coordinator also
	// numbers moves and messages.
	Seq uint64
}

// Compare returns -1, 0 or 1 as t is before, equal to or after u.
func (t Token) Compare(u Token) int { return protocol.Token(t).Compare(protocol.Token(u)) }

// Less reports whether t is before u.
func (t Token) Less(u Token) bool { return t.Compare(u) < 0 }

// IsZero reports whether t is the zero Token.
func (t Token) IsZero() bool { return t == Token{} }

// String returns term/seq.
func (t Token) String() string { return protocol.Token(t).String() }

// MarshalText writes the token as String does.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *Token) UnmarshalText(text []byte) error {
	term, seq, found := strings.Cut(string(text), "/")
	var out Token
	err := out.Term.UnmarshalText([]byte(term))
	if err == nil {
		out.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if !found || err != nil {
		return fmt.Errorf("sharding: %q is no token", text)
	}
	*t = out
	return nil
}
