// Package service describes a program of a user to chaos, and asks it over HTTP: counters
// that are raised, or registers that are written and read.
package service
