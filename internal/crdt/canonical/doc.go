// Package canonical writes and reads the few msgpack forms of replicated values. Writing is
// append-only and always takes the shortest form, so equal content gives equal bytes.
// Reading checks every declared length against the bytes that remain before anything is
// allocated for it.
package canonical
