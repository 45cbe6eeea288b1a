package invariant

import "testing"

func TestDeliveriesRunOnceInTheirOrder(t *testing.T) {
	type step func(d *Deliveries) *Violation
	runs := func(n uint64) step { return func(d *Deliveries) *Violation { return d.Runs(1, 7, 2, 5, n) } }
	noted := func(n uint64, aside bool) step {
		return func(d *Deliveries) *Violation {
			d.Noted(7, 5, n, aside)
			return nil
		}
	}
	late := func(n uint64) step {
		return func(d *Deliveries) *Violation {
			d.EndedLate(7, 5, n)
			return nil
		}
	}
	confirmed := func(n uint64) step { return func(d *Deliveries) *Violation { return d.Confirmed(1, 7, 5, n) } }
	flushed := func(n uint64) step { return func(d *Deliveries) *Violation { return d.Flushed(1, 7, 5, n) } }
	lost := func(d *Deliveries) *Violation {
		d.Lost(2)
		return nil
	}
	for name, c := range map[string]struct {
		steps []step
		// id is that of the violation that the last step must show, "" if none.
		id string
	}{
		"in order":                        {[]step{runs(1), noted(1, false), runs(2), noted(2, false), confirmed(1), confirmed(2)}, ""},
		"a gap":                           {[]step{runs(1), noted(1, false), runs(3)}, "S3"},
		"twice":                           {[]step{runs(1), noted(1, false), runs(1)}, "S2"},
		"its home ended before it noted":  {[]step{runs(1), runs(1)}, ""},
		"twice, its memory was lost":      {[]step{runs(1), noted(1, false), lost, runs(1)}, ""},
		"twice, the first ended late":     {[]step{runs(1), lost, late(1), runs(1)}, ""},
		"ended late and confirmed":        {[]step{runs(1), lost, late(1), confirmed(1), runs(1)}, ""},
		"confirmed after the loss":        {[]step{runs(1), noted(1, false), lost, confirmed(1), runs(1)}, ""},
		"after the loss, twice":           {[]step{runs(1), noted(1, false), lost, confirmed(1), runs(1), noted(1, false), runs(1)}, "S2"},
		"confirmed between two losses":    {[]step{runs(1), noted(1, false), lost, runs(1), noted(1, false), confirmed(1), lost, runs(1)}, "S2"},
		"confirmed, its memory was lost":  {[]step{runs(1), noted(1, false), confirmed(1), lost, runs(1)}, "S2"},
		"above the confirmed, lost":       {[]step{runs(1), noted(1, false), confirmed(1), lost, runs(2)}, ""},
		"above one that ended, lost":      {[]step{runs(1), noted(1, false), lost, runs(2)}, ""},
		"then the one that ended again":   {[]step{runs(1), noted(1, false), lost, runs(2), noted(2, false), runs(1)}, "S2"},
		"above one put aside, lost":       {[]step{runs(1), noted(1, true), lost, runs(2)}, "S3"},
		"put aside and run to its end":    {[]step{runs(1), noted(1, true), runs(2), noted(2, false), runs(1), noted(1, false)}, ""},
		"put aside, then twice":           {[]step{runs(1), noted(1, true), runs(1), noted(1, false), runs(1)}, "S2"},
		"confirmed before it ran":         {[]step{confirmed(1)}, "S10"},
		"confirmed, the first put aside":  {[]step{runs(1), noted(1, true), runs(2), noted(2, false), confirmed(2)}, ""},
		"put aside and confirmed":         {[]step{runs(1), noted(1, true), confirmed(1)}, "S10"},
		"flushed":                         {[]step{runs(1), noted(1, false), confirmed(1), flushed(1)}, ""},
		"flushed before all is confirmed": {[]step{runs(1), noted(1, false), confirmed(1), flushed(2)}, "S10"},
		"confirmed twice":                 {[]step{runs(1), noted(1, false), confirmed(1), confirmed(1)}, "S10"},
		"a shard beside it loses nothing": {[]step{runs(1), noted(1, false), func(d *Deliveries) *Violation { d.Lost(3); return nil }, runs(1)}, "S2"},
	} {
		t.Run(name, func(t *testing.T) {
			d, last := NewDeliveries(), (*Violation)(nil)
			for i, s := range c.steps {
				if last = s(d); last != nil && i < len(c.steps)-1 {
					t.Fatalf("step %d: %v", i+1, last)
				}
			}
			if got := last; got == nil && c.id != "" || got != nil && got.ID != c.id {
				t.Errorf("got %v, want %q", got, c.id)
			}
		})
	}
}
