package standby

import (
	"testing"

	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

// TestTheWireIsAsItWas: nodes read the frames of all wire versions that they speak.
func TestTheWireIsAsItWas(t *testing.T) {
	var frames [][]byte
	for _, m := range samples() {
		frames = append(frames, Append(nil, m))
	}
	wiretest.Frozen(t, frames, func(_ uint16, frame []byte) ([]byte, error) {
		m, err := Decode(frame)
		if err != nil {
			return nil, err
		}
		return Append(nil, m), nil
	})
}
