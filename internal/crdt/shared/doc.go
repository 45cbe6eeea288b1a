// Package shared holds sequences, indexes and tables that copies of a value have in common
// until one of them changes.
package shared
