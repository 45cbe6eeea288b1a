package standby

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// TestTheWireIsAsItWas: nodes of one wire version (internal/transport) understand each
// other.
func TestTheWireIsAsItWas(t *testing.T) {
	h := sha256.New()
	for _, m := range samples() {
		h.Write(Append(nil, m))
	}
	const was = "5383f61bd0110c1d"
	if is := fmt.Sprintf("%x", h.Sum(nil)[:8]); is != was {
		t.Errorf("the frames of the samples have digest %s, not %s: if a format has changed, see docs/HACKING.md", is, was)
	}
}
