package machine

// usage is processor time since some origin, in seconds over all processors.
type usage struct {
	// total is the time that there was, busy what was used, stolen what the machine did not
	// get from its host, ours what the run has used.
	total, busy, stolen, ours float64
}

// partsSince returns the parts of the processors since an earlier reading.
func (u usage) partsSince(from usage) (ours, others, stolen float64) {
	total := u.total - from.total
	if total <= 0 {
		return 0, 0, 0
	}
	// The parts are read one after the other, so they may miss each other a little.
	part := func(d float64) float64 { return min(1, max(0, d/total)) }
	ours = part(u.ours - from.ours)
	return ours, part(u.busy - from.busy - (u.ours - from.ours)), part(u.stolen - from.stolen)
}
