// Package dots holds the live changes of one writer, in blocks of 1024 sequence numbers,
// each with the slot of its payload.
package dots
