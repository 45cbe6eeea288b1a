package replica

import (
	"errors"

	"github.com/peerage-go/peerage/internal/wire"
)

// roleBytesMax bounds the name of a role in a frame.
const roleBytesMax = 255

// ErrFrame means that a frame does not begin with a role.
var ErrFrame = errors.New("replicator: frame without a role")

// SplitRole splits a frame into its role and the payload for HandleFrame. All replicators
// of a node share one transport kind; the owner of the handler selects the replicator by
// role. The payload aliases the frame.
func SplitRole(frame []byte) (role string, payload []byte, err error) {
	r := wire.NewReader(frame)
	role = r.String("role", roleBytesMax)
	if r.Err() != nil {
		return "", nil, ErrFrame
	}
	return role, frame[len(frame)-r.Left():], nil
}

// appendRole begins a frame.
func appendRole(b []byte, role string) []byte { return wire.AppendString(b, role) }
