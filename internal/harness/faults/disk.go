package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/fleet"
)

// playDisk fills the disks of a minority. Their own durable writes must fail, they must not
// be ready, and entities that are new must find a home and answer, through them too. Then
// there is room again, and sometimes the processes are killed before.
func (in *Injector) playDisk(ctx context.Context, r *Round) error {
	f := in.Fleet
	some, _ := in.minority()
	turn := in.turnOf(Disk)
	if turn%2 == 0 {
		some = []int{in.oldest()}
		r.How = "the leader's, "
	}
	kill := turn%4 == 1 || turn%4 == 2
	for _, i := range some {
		r.hurts(f.Now[i])
	}
	r.How += "full"
	r.From = clock.Boot().Now()
	var errs []error
	for _, i := range some {
		errs = append(errs, fleet.FillDisk(f.DataDir(i)))
	}
	errs = append(errs, in.diskFails(ctx, r, some))
	if kill && errors.Join(errs...) == nil {
		r.How, r.Killed = r.How+", then killed", len(some)
		for _, i := range some {
			errs = append(errs, f.Now[i].Kill())
		}
	}
	for _, i := range some {
		errs = append(errs, fleet.FreeDisk(f.DataDir(i)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, i := range some {
		if r.Killed == 0 {
			continue
		}
		p := f.Now[i]
		<-p.Gone
		f.Now[i] = nil
		last, _ := p.Snapshot()
		if err := in.fillPlace(ctx, i, last.Listen); err != nil {
			return err
		}
	}
	if err := f.Settle(ctx); err != nil {
		return err
	}
	for _, i := range some {
		if err := f.Now[i].WaitForReadiness(ctx); err != nil {
			return err
		}
	}
	return nil
}

// diskFails waits until every process at some places reports that its disk fails.
// A process must report it to its callers, in its readiness and in its gauge. Meanwhile
// diskFails asks for new entities.
func (in *Injector) diskFails(ctx context.Context, r *Round, some []int) error {
	ctx, cancel := context.WithTimeout(ctx, fleet.SettlePatience)
	defer cancel()
	began := time.Now()
	for _, i := range some {
		p := in.Fleet.Now[i]
		before, _ := p.Snapshot()
		for {
			last, _ := p.Snapshot()
			if last.Load.Tries[diskReason] > before.Load.Tries[diskReason] {
				break
			}
			if err := harness.Pause(ctx, 10*time.Millisecond); err != nil {
				return fmt.Errorf("%s: no durable write failed on a full disk: %w", p.Name, err)
			}
		}
		last, _ := p.Snapshot()
		if _, err := harness.Fetch(ctx, http.MethodGet, "http://"+last.HTTP+"/readyz"); err == nil || !strings.Contains(err.Error(), "disk of the durable keys") {
			return fmt.Errorf("%s: its disk is full, but /readyz answers: %w", p.Name, err)
		}
		metrics, err := harness.Fetch(ctx, http.MethodGet, "http://"+last.HTTP+"/metrics")
		if err != nil || !strings.Contains(string(metrics), diskGauge) {
			return fmt.Errorf("%s: its disk is full, but its metrics lack %s: %w", p.Name, diskGauge, err)
		}
	}
	if err := in.askNewcomers(ctx, r.Number); err != nil {
		return err
	}
	if err := harness.Pause(ctx, in.heldFor()/2); err != nil {
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
func (in *Injector) askNewcomers(ctx context.Context, number int) error {
	for _, i := range in.Fleet.Living() {
		last, _ := in.Fleet.Now[i].Snapshot()
		for n := range newcomers {
			url := fmt.Sprintf("http://%s/v1/counters/newcomer-%d-%d-%d/ask", last.HTTP, number, i, n)
			if _, err := harness.Fetch(ctx, http.MethodPost, url); err != nil {
				return fmt.Errorf("while a disk was full: %w", err)
			}
		}
	}
	return nil
}
