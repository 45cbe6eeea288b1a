package wire

import "strconv"

// Oldest and Newest bound the wire versions that this build speaks. A release raises Newest
// with the first change of a message since the release before, and Oldest at the earliest
// when no supported release speaks only versions below. docs/HACKING.md has the rules.
//
//	1, 2  before the first release; nodes of these versions are rejected
//	3     the first that a release speaks
const (
	Oldest = 3
	Newest = 3
)

// Versions is a range of wire versions.
type Versions struct{ Oldest, Newest uint16 }

// OwnVersions returns the versions that this build speaks.
func OwnVersions() Versions { return Versions{Oldest, Newest} }

// Common returns the versions that are in both ranges. It reports false if there are none.
func (v Versions) Common(o Versions) (Versions, bool) {
	both := Versions{max(v.Oldest, o.Oldest), min(v.Newest, o.Newest)}
	return both, both.Oldest <= both.Newest
}

// String returns the range for logs and errors.
func (v Versions) String() string {
	if v.Oldest == v.Newest {
		return strconv.Itoa(int(v.Newest))
	}
	return strconv.Itoa(int(v.Oldest)) + " to " + strconv.Itoa(int(v.Newest))
}
