// Package door lets package peerage reach the parts inside a public type of another package
// that wire a node, without an exported function that names internal types.
//
// Such a type is an Opener. Its parts have internal types, or are functions of internal
// types, so applications cannot name them.
package door

import "fmt"

// Opener is a public type with internal parts.
type Opener interface {
	// Internal sets the value that target points to, if there is a part of its type.
	Internal(target any) (found bool)
}

// Open returns the part of type T inside o. It fails if o has no such part.
func Open[T any](o Opener) (part T, err error) {
	if !o.Internal(&part) {
		err = fmt.Errorf("door: %T has no part of type %T", o, part)
	}
	return part, err
}
