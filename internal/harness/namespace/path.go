package namespace

// Breakage is a way to break a direction between two places.
type Breakage string

// The ways: silence, resets in the peer's name for all packets or for dials alone, ICMP
// errors that prohibit or find no route, and the loss of some packets.
const (
	DropAll      Breakage = "dropped"
	ResetTCP     Breakage = "reset"
	ResetDials   Breakage = "dials reset"
	ProhibitAll  Breakage = "prohibited"
	NoRouteToAll Breakage = "unreachable"
	LoseFew      Breakage = "3 % lost"
	LoseMany     Breakage = "20 % lost"
)

// Path is one direction between two places.
type Path struct{ From, To int }
