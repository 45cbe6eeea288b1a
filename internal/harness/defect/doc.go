// Package defect has deliberate defects of the node program that chaos checks. A check is
// trusted only after it has failed once: `peerage chaos --plant KIND` runs a fleet whose
// nodes have one defect, and must not pass.
//
// Defects are compiled only into a build with the tag plant. In every other build Active
// returns a constant, and the compiler removes the code that compares it:
//
//	go run -tags plant ./cmd/peerage chaos --rounds 3 --plant two-instances
package defect
