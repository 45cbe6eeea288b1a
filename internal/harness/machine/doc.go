// Package machine watches whether the machine of a run was overloaded: how late a timer of
// the harness is, and who took the processors.
package machine
