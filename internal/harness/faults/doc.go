// Package faults hurts the processes of a fleet: kills, pauses, orderly restarts, broken
// networks, clocks that jump, and full disks. Each fault ends when all processes agree again.
package faults
