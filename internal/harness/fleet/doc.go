// Package fleet starts this program again as node processes, follows their reports, and ends
// them. A child ends when its standard input closes, so none outlives its parent.
package fleet
