package record

import (
	"regexp"
	"strings"
)

// note is how an event of the trace appears in a recording.
type note struct {
	weight Weight
	// text describes the event; a % in it stands for the detail.
	text string
}

// notes are the events of the trace that are marks. Their kinds are those of the simulator and of
// the cores.
var notes = map[string]note{
	// Faults.
	"crashed":            {Fault, "the process is killed"},
	"paused":             {Fault, "the process is paused"},
	"resumed":            {Fault, "the process resumes"},
	"slow":               {Fault, "the process becomes slow"},
	"partition":          {Fault, "the network is parted"},
	"clog":               {Fault, "some paths of the network break"},
	"connections break":  {Fault, "connections break"},
	"ring":               {Fault, "each host reaches only its two neighbours"},
	"deaf":               {Fault, "the paths between the leader and one member break"},
	"burst":              {Fault, "faults are aimed at this proposal"},
	"aimed at a raise":   {Fault, "faults are aimed at new voters"},
	"aimed at a removal": {Fault, "faults are aimed at this removal"},
	"disk fails":         {Fault, "the disk fails"},
	"disk works":         {Fault, "the disk works again"},
	"frame damaged":      {Fault, "a frame arrives damaged"},
	"handler blocks":     {Fault, "a handler blocks"},
	// What the cluster does.
	"started":                {Main, "a process starts"},
	"leaves":                 {Main, "the process begins to leave"},
	"removed":                {Main, "the incarnation ends: %"},
	"forms":                  {Main, "forms a cluster"},
	"leads":                  {Main, "leads the cluster"},
	"emergency takeover":     {Main, "takes over without a majority: %"},
	"steps down":             {Main, "no longer leads: %"},
	"left out":               {Main, "removes %"},
	"yields":                 {Main, "yields to the other cluster"},
	"office taken":           {Main, "coordinates: %"},
	"office left":            {Main, "no longer coordinates: %"},
	"census complete":        {Main, "has the census of all shards"},
	"move begun":             {Main, "begins to move %"},
	"handoff ordered":        {Main, "orders the handoff of %"},
	"move cancelled":         {Main, "cancels the move of %"},
	"move resumed":           {Main, "resumes the move of %"},
	"drained":                {Main, "has handed over its shards"},
	"abandon":                {Main, "drops all its entities"},
	"state lost":             {Main, "a state is lost, as documented: %"},
	"quorum healed":          {Main, "faults end within a quorum; the rest stays cut off"},
	"sides meet":             {Main, "the two clusters meet"},
	"settled: quorum":        {Main, "the quorum acts again, after %"},
	"settled: all":           {Main, "one cluster again, after %"},
	"settled: survivor":      {Main, "the survivor acts alone, after %"},
	"settled: shards":        {Main, "each shard is served again, after %"},
	"member does not answer": {Main, "asks to remove a silent member: %"},
	// Steps of protocols.
	"proposes":           {Step, "proposes %"},
	"commits":            {Step, "commits a view"},
	"campaigns":          {Step, "stands for leader: %"},
	"proof":              {Step, "has evidence that a process died: %"},
	"home chosen":        {Step, "chooses a home: %"},
	"state read":         {Step, "has read its records"},
	"stale term refused": {Step, "refuses an order of a former term"},
	"word acknowledged":  {Step, "a write is acknowledged at a majority: %"},
	"words read":         {Step, "a read at a majority succeeds %"},
	"message lost":       {Step, "a message cannot be delivered: %"},
}

// tokens are numbers of allocations and of views, which would fill the texts of marks.
var tokens = regexp.MustCompile(`-?[0-9]+\.[0-9]+(/[0-9]+ ?|\b)`)

// Note adds a mark for an event of the trace, if it is one of those that are drawn. Detail is
// called only then.
func (r *Recorder) Note(host int, kind string, num uint64, detail func() string) {
	if r == nil {
		return
	}
	if kind == "disk fails" && num == 0 {
		kind = "disk works"
	}
	n, known := notes[kind]
	if !known {
		return
	}
	text := ""
	if detail != nil {
		text = strings.TrimSpace(tokens.ReplaceAllString(detail(), ""))
	}
	text = strings.TrimSuffix(strings.TrimSpace(strings.Replace(n.text, "%", text, 1)), ":")
	r.Add(Mark{Host: host, Weight: n.weight, Kind: kind, Text: text})
}
