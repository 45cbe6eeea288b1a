// Package typeshape describes how codecs that work by reflection write a Go type: MessagePack
// and JSON. It finds the parts of a type that such a codec loses, and the shape of the type's
// encoding, by which nodes compare their messages.
package typeshape
