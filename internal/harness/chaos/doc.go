// Package chaos deals faults to a fleet under load, one after the other as a seed decides,
// and checks the records of all processes together.
package chaos
