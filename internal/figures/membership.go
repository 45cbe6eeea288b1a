package figures

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// MembershipObserver receives the removals of members: the cause, and the time from the loss of the
// connection until the view without the member.
type MembershipObserver func(cause gossip.Cause, after time.Duration)
