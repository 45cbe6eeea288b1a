package faults

// Kind is a way to hurt a fleet.
type Kind string

// The kinds that need no privileges.
const (
	Kill     Kind = "kill"
	KillMany Kind = "kill-many"
	Stop     Kind = "stop"
	Drain    Kind = "drain"
	Restart  Kind = "restart"
	// RestartMany is an operator in a hurry: it restarts several processes at the same
	// instant, each in order.
	RestartMany Kind = "restart-many"
	// These two are for bench: kill all processes but one at the same instant, and hold a
	// process until it is removed.
	KillRest Kind = "kill-rest"
	Freeze   Kind = "freeze"

	DefaultKinds = "kill,kill-many,stop,drain,restart,restart-many"
)

// These faults break the network between processes. They need root and Linux.
const (
	// Cut: some places, less than half, lose the rest. CutPair: two places lose
	// each other.
	Cut     Kind = "cut"
	CutPair Kind = "cut-pair"
	// Reject: as cut or cut-pair, but the network answers for living processes, with
	// resets or ICMP errors, in one direction or both, immediately or after a silence.
	Reject Kind = "reject"
	// OneWay: packets pass in one direction only.
	OneWay Kind = "oneway"
	// Ring: each place reaches only its neighbours in a ring.
	Ring Kind = "ring"
	// Late: one place is cut off in one direction for about as long as it takes to
	// remove it. Its kernel then delivers what it still holds, beside its next incarnation.
	Late Kind = "late"

	// Loss: some packets are lost, between some places and the rest.
	Loss Kind = "loss"
	// Delay: packets between some places and the rest are held on their way, in both
	// directions or in one. Every second time it is for about as long as a lease lasts.
	Delay Kind = "delay"

	NetworkKinds = "cut,cut-pair,reject,oneway,ring,late,loss,delay"
)

// BreaksNetwork reports whether a fault needs the wall.
func (k Kind) BreaksNetwork() bool {
	switch k {
	case Cut, CutPair, Reject, OneWay, Ring, Late, Loss, Delay:
		return true
	}
	return false
}

// These faults hurt the machine of a process.
const (
	// Clock: wall clocks are set, by minutes to decades, of some processes, of one
	// that is killed and started again within a second, or of all that are killed and
	// started again, also to the second in which the cluster was formed.
	Clock Kind = "clock"
	// Disk: the disks of some processes fill up for a while.
	Disk Kind = "disk"

	MachineKinds = "clock,disk"

	// Slow: one process has a small part of a processor for a while. It needs root and
	// control groups, and has no effect without them.
	Slow Kind = "slow"

	ProcessorKinds = "slow"
)

// Kills reports whether a fault is the end of processes alone.
func (k Kind) Kills() bool { return k == Kill || k == KillMany || k == KillRest }

// NeedsFiles reports whether the processes keep files for a fault.
func (k Kind) NeedsFiles() bool { return k == Clock || k == Disk }

// NeedsDisks reports whether those files lie on disks of their own.
func (k Kind) NeedsDisks() bool { return k == Disk }
