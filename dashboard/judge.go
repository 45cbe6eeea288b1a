package dashboard

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/figures"
)

// judge says how the cluster is, in one line, and lists all that is wrong.
func judge(s *shown, c *figures.Cluster, own *figures.Node) health {
	if own == nil || c.View == nil {
		h := health{Level: "empty", Text: "in no cluster"}
		if own != nil && own.NotReady != "" {
			h.Details = []string{own.NotReady}
		}
		return h
	}
	var bad, warn []string
	if s.Totals.Doubles > 0 {
		bad = append(bad, countOf(int(s.Totals.Doubles), "shard")+" ran twice: please report this")
	}
	if !own.Lease.Valid {
		bad = append(bad, fmt.Sprintf("no quorum: %s has no lease, and its entities pause", own.Name))
	}
	if own.Contests > 0 {
		bad = append(bad, "another cluster of the same name exists: check the contact points")
	}
	paused := 0
	for i := range s.Members {
		r := &s.Members[i]
		switch {
		case r.Gone != "":
		case !r.Answers:
			warn = append(warn, r.Name+" does not answer")
		case r.Lease < 0 && r.Status == gossip.Up.String() && !r.Self:
			paused++
			warn = append(warn, r.Name+" has no lease")
		case !r.Ready:
			warn = append(warn, r.Name+" is not ready: "+r.NotReady)
		case len(r.Down) > 0:
			warn = append(warn, fmt.Sprintf("%s has no connection with %s", r.Name, countOf(len(r.Down), "member")))
		}
	}
	for _, t := range s.Types {
		warn = append(warn, t.Problems...)
		if t.Oldest > 5 {
			warn = append(warn, fmt.Sprintf("a handler of %s has run for %.0f s", t.Name, t.Oldest))
		}
	}
	if s.Totals.Losses > 0 {
		warn = append(warn, countOf(int(s.Totals.Losses), "state")+" may have been lost since the start")
	}
	details := append(bad, warn...)
	switch {
	case len(bad) > 0:
		return health{"bad", bad[0], details[1:]}
	case len(warn) == 1:
		return health{"warn", warn[0], nil}
	case len(warn) > 1:
		return health{"warn", fmt.Sprintf("quorum, and %d things to look at", len(warn)), details[:min(len(details), 50)]}
	}
	return health{"ok", "quorum, all leases valid", nil}
}
