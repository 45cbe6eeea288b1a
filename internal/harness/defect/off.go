//go:build !plant

package defect

// Built reports whether this build has defects.
const Built = false

// Active returns the defect of this process: none, in this build.
func Active() Kind { return "" }
