package protocol

import "github.com/peerage-go/peerage/gossip/view"

// Elect returns who coordinates the types of a role in v: the most senior up
// member that carries the role, or, when all that are left are leaving, the most
// senior of those. It returns zero when nobody can. All nodes that hold v agree.
//
// A leaving member hands its office on before it goes: the next one takes it, with
// a census, while the leaving one still answers for what it hosts.
func Elect(v *view.View, role string) view.NodeID {
	if v == nil {
		return 0
	}
	var leaving view.NodeID
	for i := range v.Members {
		m := &v.Members[i]
		if !m.HasRole(role) {
			continue
		}
		if m.Status == view.Up {
			return m.ID
		}
		if m.Status == view.Leaving && leaving == 0 {
			leaving = m.ID
		}
	}
	return leaving
}
