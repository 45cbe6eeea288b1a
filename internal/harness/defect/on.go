//go:build plant

package defect

import "os"

// Built reports whether this build has defects.
const Built = true

var active = Kind(os.Getenv(variable))

// Active returns the defect of this process, "" for none.
func Active() Kind { return active }
