package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

const (
	// faultClock: wall clocks are set, by minutes to decades, of some processes, of one
	// that is killed and started again within a second, or of all that are killed and
	// started again, also to the second in which the cluster was formed.
	faultClock faultKind = "clock"
	// faultDisk: the disks of some processes fill up for a while.
	faultDisk faultKind = "disk"

	nodeFaults = "clock,disk"
)

// needsFiles reports whether the processes keep files for a fault.
func (k faultKind) needsFiles() bool { return k == faultClock || k == faultDisk }

// needsDisks reports whether those files lie on disks of their own.
func (k faultKind) needsDisks() bool { return k == faultDisk }

const year = 365 * 24 * time.Hour

// offsets are how far a wall clock is set ahead. Half of the clocks are set back.
var offsets = []time.Duration{90 * time.Second, 3 * time.Hour, 9 * 24 * time.Hour, year, 30 * year}

func (c *chaosRun) wallOffset() time.Duration {
	d := offsets[c.rng.IntN(len(offsets))]
	if c.rng.IntN(2) == 0 {
		return -d
	}
	return d
}

func (c *chaosRun) playClock(ctx context.Context, r *round) error {
	switch c.turnOf(faultClock) % 3 {
	case 0:
		return c.restartAll(ctx, r)
	case 1:
		return c.jump(ctx, r)
	}
	return c.restartInASecond(ctx, r)
}

// turnOf counts the rounds of a kind before this one: its variants take turns, so that
// short runs play them all.
func (c *chaosRun) turnOf(k faultKind) (n int) {
	for i := range c.rounds {
		if c.rounds[i].Kind == k {
			n++
		}
	}
	return n
}

// jump sets the clocks of a minority, twice, and then right again.
func (c *chaosRun) jump(ctx context.Context, r *round) error {
	some, _ := c.minority()
	for _, i := range some {
		r.hurts(c.fleet.now[i])
	}
	r.From = clock.Boot().Now()
	for range 2 {
		for _, i := range some {
			d := c.wallOffset()
			r.How = strings.TrimPrefix(r.How+", "+ago(d), ", ")
			if err := c.fleet.setWall(ctx, i, d); err != nil {
				return err
			}
		}
		held := c.heldFor() / 2
		r.HeldMS += float64(held.Milliseconds())
		if err := pause(ctx, held); err != nil {
			return err
		}
	}
	r.TookEffect = true // setWall has seen it
	return errors.Join(c.fleet.rightWalls(ctx), c.fleet.settle(ctx))
}

// ago words an offset.
func ago(d time.Duration) string {
	word, size := "days", 24*time.Hour
	switch d = d.Round(time.Second); {
	case d.Abs() >= year:
		word, size = "years", year
	case d.Abs() < size:
		return fmt.Sprintf("%+v", d)
	}
	return fmt.Sprintf("%+d %s", d/size, word)
}

// restartInASecond kills a process and starts it again at its address, with another clock.
func (c *chaosRun) restartInASecond(ctx context.Context, r *round) error {
	i, d := c.rng.IntN(c.cfg.nodes), c.wallOffset()
	p := c.fleet.now[i]
	r.hurts(p)
	r.Killed, r.How = 1, "killed and started again, "+ago(d)
	r.From = clock.Boot().Now()
	if err := p.kill(); err != nil {
		return err
	}
	<-p.gone
	last, _ := p.snapshot()
	c.fleet.now[i], c.fleet.ahead[i] = nil, d
	if err := c.fill(ctx, i, last.Listen); err != nil {
		return err
	}
	if err := c.fleet.settle(ctx); err != nil {
		return err
	}
	if err := c.fleet.seesWall(ctx, i); err != nil {
		return err
	}
	r.TookEffect = true
	return errors.Join(c.fleet.rightWalls(ctx), c.fleet.settle(ctx))
}

// restartAll kills all processes, sets their clocks back, and starts them again at the
// addresses of their list, which may not be where the last ones listened: to the second in which the present cluster was formed, or by as much for each
// as is drawn. One more of them may stand years ahead. The next cluster's generation must be higher.
func (c *chaosRun) restartAll(ctx context.Context, r *round) error {
	f := c.fleet
	r.Killed, r.Emergency = c.cfg.nodes, true
	before := uint32(0)
	for _, p := range f.now {
		r.hurts(p)
		last, _ := p.snapshot()
		before = max(before, last.Generation)
	}
	offsets := make([]time.Duration, c.cfg.nodes)
	same := time.Until(time.Unix(int64(before), 0))
	r.How = "all killed and started again, "
	if c.turnOf(faultClock)%2 == 0 && same < 0 {
		r.How += "in the second in which their cluster was formed"
		for i := range offsets {
			offsets[i] = same
		}
	} else {
		for i := range offsets {
			offsets[i] = -c.wallOffset().Abs()
		}
		r.How += "set back"
		if c.rng.IntN(2) == 0 {
			offsets[c.rng.IntN(len(offsets))] = 3 * year
			r.How += ", one ahead"
		}
	}
	r.From = clock.Boot().Now()
	for _, p := range f.now {
		if err := p.kill(); err != nil {
			return err
		}
	}
	for i, p := range f.now {
		<-p.gone
		f.now[i], f.ahead[i] = nil, offsets[i]
	}
	for i, at := range f.list {
		if err := c.fill(ctx, i, at); err != nil {
			return err
		}
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	after, _ := f.now[0].snapshot()
	if after.Generation <= before {
		return fmt.Errorf("the generation went from %d to %d", before, after.Generation)
	}
	for i := range f.now {
		if err := f.seesWall(ctx, i); err != nil {
			return err
		}
	}
	r.TookEffect = true
	return errors.Join(f.rightWalls(ctx), f.settle(ctx))
}

// setWall sets the wall clock of the process at a place, and waits until it reports so.
func (f *fleet) setWall(ctx context.Context, i int, ahead time.Duration) error {
	f.ahead[i] = ahead
	if err := f.now[i].command(fmt.Sprintf("%s%v\n", wallOffset, ahead)); err != nil {
		return err
	}
	return f.seesWall(ctx, i)
}

// rightWalls sets all wall clocks right.
func (f *fleet) rightWalls(ctx context.Context) error {
	for i := range f.ahead {
		if err := f.setWall(ctx, i, 0); err != nil {
			return err
		}
	}
	return nil
}

// wallSlack is how old a report may be.
const wallSlack = 5 * time.Second

// seesWall waits until the process at a place reports the wall time that was set.
func (f *fleet) seesWall(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for {
		r, _ := f.now[i].snapshot()
		want := time.Now().Add(f.ahead[i])
		if time.UnixMilli(r.WallMillis).Sub(want).Abs() < wallSlack {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s reports the wall time %v, not %v: %w", f.now[i].name, time.UnixMilli(r.WallMillis), want, err)
		}
	}
}

// command writes a line to the standard input of the process.
func (p *process) command(line string) error {
	_, err := io.WriteString(p.stdin, line)
	return err
}

// playDisk fills the disks of a minority. Their own durable writes must fail, they must not
// be ready, and entities that are new must find a home and answer, through them too. Then
// there is room again, and sometimes the processes are killed before.
func (c *chaosRun) playDisk(ctx context.Context, r *round) error {
	f := c.fleet
	some, _ := c.minority()
	turn := c.turnOf(faultDisk)
	if turn%2 == 0 {
		some = []int{c.oldest()}
		r.How = "the leader's, "
	}
	kill := turn%4 == 1 || turn%4 == 2
	for _, i := range some {
		r.hurts(f.now[i])
	}
	r.How += "full"
	r.From = clock.Boot().Now()
	var errs []error
	for _, i := range some {
		errs = append(errs, fillDisk(f.dataDir(i)))
	}
	errs = append(errs, c.diskFails(ctx, r, some))
	if kill && errors.Join(errs...) == nil {
		r.How, r.Killed = r.How+", then killed", len(some)
		for _, i := range some {
			errs = append(errs, f.now[i].kill())
		}
	}
	for _, i := range some {
		errs = append(errs, freeDisk(f.dataDir(i)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, i := range some {
		if r.Killed == 0 {
			continue
		}
		p := f.now[i]
		<-p.gone
		f.now[i] = nil
		last, _ := p.snapshot()
		if err := c.fill(ctx, i, last.Listen); err != nil {
			return err
		}
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	for _, i := range some {
		if err := f.now[i].waitForReadiness(ctx); err != nil {
			return err
		}
	}
	return nil
}

// diskFails waits until every process at some places reports that its disk fails.
// A process must report it to its callers, in its readiness and in its gauge. Meanwhile
// diskFails asks for new entities.
func (c *chaosRun) diskFails(ctx context.Context, r *round, some []int) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	began := time.Now()
	for _, i := range some {
		p := c.fleet.now[i]
		before, _ := p.snapshot()
		for {
			last, _ := p.snapshot()
			if last.Load.Tries[diskReason] > before.Load.Tries[diskReason] {
				break
			}
			if err := pause(ctx, 10*time.Millisecond); err != nil {
				return fmt.Errorf("%s: no durable write failed on a full disk: %w", p.name, err)
			}
		}
		last, _ := p.snapshot()
		if _, err := fetch(ctx, http.MethodGet, "http://"+last.HTTP+"/readyz"); err == nil || !strings.Contains(err.Error(), "disk of the durable keys") {
			return fmt.Errorf("%s: its disk is full, but /readyz answers: %w", p.name, err)
		}
		metrics, err := fetch(ctx, http.MethodGet, "http://"+last.HTTP+"/metrics")
		if err != nil || !strings.Contains(string(metrics), diskGauge) {
			return fmt.Errorf("%s: its disk is full, but its metrics lack %s: %w", p.name, diskGauge, err)
		}
	}
	if err := c.askNewcomers(ctx, r.Number); err != nil {
		return err
	}
	if err := pause(ctx, c.heldFor()/2); err != nil {
		return err
	}
	r.HeldMS = float64(time.Since(began).Milliseconds())
	r.TookEffect = true
	return nil
}

const (
	diskReason = "data: disk"
	diskGauge  = `peerage_ddata_durable_failing{role="all"} 1`
	// newcomers is how many entities are asked for the first time at each process.
	newcomers = 4
)

// askNewcomers asks, at every process, for entities that were never asked for.
func (c *chaosRun) askNewcomers(ctx context.Context, number int) error {
	for _, i := range c.fleet.living() {
		last, _ := c.fleet.now[i].snapshot()
		for n := range newcomers {
			url := fmt.Sprintf("http://%s/v1/counters/newcomer-%d-%d-%d/ask", last.HTTP, number, i, n)
			if _, err := fetch(ctx, http.MethodPost, url); err != nil {
				return fmt.Errorf("while a disk was full: %w", err)
			}
		}
	}
	return nil
}

// oldest returns the place of the leader, or 0 if no process reports to be leader.
func (c *chaosRun) oldest() int {
	for _, i := range c.fleet.living() {
		if last, _ := c.fleet.now[i].snapshot(); last.Leader {
			return i
		}
	}
	return 0
}

// dataDir is where the processes of a place keep their files, one after the other.
func (f *fleet) dataDir(i int) string { return filepath.Join(f.dir, "data-"+placeName(i)) }

const (
	fillerName = "filler"
	// diskBytes is the size of a place's disk.
	diskBytes = 64 << 20
)

// fillDisk takes all room on the disk of a directory.
func fillDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, fillerName))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for written := 0; ; {
		n, err := f.Write(block)
		written += n
		switch {
		case written > diskBytes:
			return fmt.Errorf("%s takes more than %d bytes: it is not a disk of its own", dir, diskBytes)
		case err != nil && len(block) > 1: // the last pages
			block = block[:len(block)/2]
		case err != nil:
			return nil
		}
	}
}

func freeDisk(dir string) error { return os.Remove(filepath.Join(dir, fillerName)) }
