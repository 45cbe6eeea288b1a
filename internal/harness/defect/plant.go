package defect

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Plant gives a defect to the processes that this process starts from now on. It fails if
// this build has no defects, or not this one.
func Plant(k Kind) error {
	if !slices.Contains(kinds, k) {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = string(k)
		}
		return fmt.Errorf("--plant names %q: choose of %s", k, strings.Join(names, ","))
	}
	if !Built {
		return fmt.Errorf("--plant %s: this program was built without defects; use `go run -tags plant ./cmd/peerage chaos --plant %s`", k, k)
	}
	return os.Setenv(variable, string(k))
}
