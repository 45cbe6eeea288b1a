package network

import "github.com/peerage-go/peerage/internal/sim/virtual"

// A process may be paused anywhere, also between the step of a core and the sending of its
// messages. The messages are about the moment of the step then, and leave when the pause ends; if
// the process ends first, they never do.

// held are the control frames that a paused process is about to send.
type held struct {
	// stop is called before the next control frame, if it is set. It reports whether it has
	// paused the process.
	stop func() bool
	// holding is set while frames are held.
	holding bool
	sends   []func()
}

// holdFrame keeps a control frame that is sent in a step in which the process has been paused, and
// reports whether it does.
func (h *held) holdFrame(t *virtual.Thread, send func()) bool {
	if stop := h.stop; stop != nil {
		h.stop = nil
		if stop() {
			h.holding = true
			t.RunFirst(h.sendHeld)
		}
	}
	if h.holding {
		h.sends = append(h.sends, send)
	}
	return h.holding
}

// sendHeld sends the frames that were held.
func (h *held) sendHeld() {
	sends := h.sends
	h.holding, h.sends = false, nil
	for _, send := range sends {
		send()
	}
}
