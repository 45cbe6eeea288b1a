// Package mutant names bugs that tests plant on purpose: a checker is trusted only if it
// catches them. Production code asks for a mutant and never plants one.
package mutant

// Kind is one planted bug. The zero Kind is none; code outside this module
// cannot make another.
type Kind struct{ name string }

// Plant returns the bug of that name. Only tests call it.
func Plant(name string) Kind { return Kind{name} }

// Is reports whether k is the bug of that name.
func (k Kind) Is(name string) bool { return k.name == name }

// String returns the name.
func (k Kind) String() string { return k.name }
