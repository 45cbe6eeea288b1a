package namespace

// Breakage is a way to break a direction between two places.
type Breakage string

// The ways: silence, resets in the peer's name for all packets or for dials alone, and ICMP
// errors that prohibit or find no route.
const (
	DropAll      Breakage = "dropped"
	ResetTCP     Breakage = "reset"
	ResetDials   Breakage = "dials reset"
	ProhibitAll  Breakage = "prohibited"
	NoRouteToAll Breakage = "unreachable"
)

// Path is one direction between two places.
type Path struct{ From, To int }
