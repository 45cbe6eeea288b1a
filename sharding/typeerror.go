package sharding

import "strings"

// TypeError lists what is wrong with a Type.
type TypeError struct {
	Type  string
	Wrong []string
}

func (e *TypeError) Error() string {
	return "sharding: type " + strings.TrimSpace(e.Type+": "+strings.Join(e.Wrong, "; "))
}
