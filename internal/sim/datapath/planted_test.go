//go:build planted

package datapath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/planted"
)

// The planted bug sends a message past those in the buffer.
func TestThePlantedBugOvertakes(t *testing.T) {
	planted.MustCatch(t, "flushed after a direct send", func() string {
		all := newProcesses(t, 2, 100)
		sender, home := all[0], all[1]
		home.token = tokenOf(1)
		sender.post(1, 1)
		sender.full = true
		sender.path.Open(0, home.self, home.token)
		sender.full = false
		sender.post(2, 2)
		sender.waiting[0](route.Sent)
		run(all)
		if got := home.handle(all); !slices.Equal(got, []uint64{1, 2}) {
			return fmt.Sprintf("handled %d", got)
		}
		return ""
	})
}
