package sharding

import (
	"fmt"
	"strings"
)

// TypeError lists the invalid settings of a Type.
type TypeError struct {
	Type  string
	Wrong []string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("sharding: type %q: %s", e.Type, strings.Join(e.Wrong, "; "))
}
