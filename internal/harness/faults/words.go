package faults

import (
	"fmt"
	"strings"
)

// words describe a kind of fault: on its own, and as what was done to places.
var words = map[Kind]struct{ alone, done string }{
	Kill:        {"one killed", "killed %s"},
	KillMany:    {"some killed together", "killed %s"},
	KillRest:    {"all but one killed together", "killed %s"},
	Stop:        {"one paused", "paused %s"},
	Freeze:      {"one paused until it is removed", "paused %s"},
	Drain:       {"one drained", "drained %s"},
	Restart:     {"one restarted", "restarted %s"},
	RestartMany: {"some restarted together", "restarted %s"},
	Cut:         {"some cut off", "cut off %s"},
	CutPair:     {"two cut off from each other", "cut off %s"},
	Reject:      {"connections rejected", "rejected the connections of %s"},
	OneWay:      {"some cut off in one direction", "cut off %s"},
	Ring:        {"connected in a ring only", "connected %s in a ring only"},
	Late:        {"one cut off in one direction until it is removed", "cut off %s"},
	Loss:        {"packets lost", "lost packets of %s"},
	Delay:       {"packets delayed", "delayed packets of %s"},
	Clock:       {"clocks set", "set the clocks of %s"},
	Disk:        {"disks full", "filled the disks of %s"},
	Slow:        {"one short of processor time", "slowed %s"},
}

// Kinds returns a line about each kind of fault: those that need no privileges come first.
func Kinds() string {
	var b strings.Builder
	all := strings.Join([]string{DefaultKinds, string(KillRest), string(Freeze), NetworkKinds, MachineKinds, ProcessorKinds}, ",")
	for name := range strings.SplitSeq(all, ",") {
		fmt.Fprintf(&b, "  %-14s  %s\n", name, Kind(name).Text())
	}
	return b.String()
}

// Text describes a kind of fault in a few words.
func (k Kind) Text() string {
	if w, found := words[k]; found {
		return w.alone
	}
	return string(k)
}

// Text describes the fault of a round, with its places.
func (r *Round) Text() string {
	places := strings.Join(r.Places, ", ")
	if n := len(r.Places); n > 1 {
		places = strings.Join(r.Places[:n-1], ", ") + " and " + r.Places[n-1]
	}
	w, found := words[r.Kind]
	if !found {
		w.done = string(r.Kind) + " of %s"
	}
	text := fmt.Sprintf(w.done, places)
	if r.Kind.Kills() && len(r.Places) > 1 {
		text += " together"
	}
	return text + r.Detail()
}
