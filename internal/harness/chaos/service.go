package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/internal/harness/service"
	"github.com/peerage-go/peerage/internal/history"
)

// serviceKinds are the faults that need nothing of a service but that it runs.
const serviceKinds = "kill,kill-many,kill-rest,stop,freeze,restart,restart-many,cut,cut-pair,reject,oneway,ring,late,loss,delay,slow"

// DefaultServiceKinds are the faults of a service for which none are named.
const DefaultServiceKinds = "kill,stop,restart"

// AnsweredTwice is the name of the first promise of a service's counter, and
// RegistersLinearizable that of the promise of its register.
const (
	AnsweredTwice         = "no two requests had the same count"
	RegistersLinearizable = "each register is linearizable"
)

// checkService returns an error for settings that a service does not have.
func (c *Config) checkService() error {
	if c.Service == nil {
		return nil
	}
	var errs []error
	for _, k := range c.faultKinds() {
		if !c.Rolling && !slices.Contains(strings.Split(serviceKinds, ","), string(k)) {
			errs = append(errs, fmt.Errorf("--faults %s: not with --service; choose of %s", k, serviceKinds))
		}
	}
	if c.Work != "" && c.Work != workCounter || c.Replicas > 0 || c.Plant != "" || c.Version {
		errs = append(errs, errors.New("--workload, --replicas, --plant and --new-version are not with --service: its file describes the load"))
	}
	return errors.Join(errs...)
}

// startClient begins to ask the service, until stopClient.
func (c *campaign) startClient() error {
	spec := c.cfg.Service
	client, err := service.NewClient(spec, c.fleet.Service.HTTP, c.cfg.Every, c.inFlightMax(), filepath.Join(c.fleet.Dir, "client.history"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Run(ctx)
	}()
	c.client = client
	c.stopClient = func() {
		cancel()
		<-ended
	}
	return nil
}

// awaitService waits until each key of a service is answered again after a fault.
func (c *campaign) awaitService(ctx context.Context, r *faults.Round) error {
	if c.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fleet.SettlePatience)
	defer cancel()
	if err := c.client.AwaitAnswers(ctx, clock.Boot().Now()); err != nil {
		return err
	}
	r.To = clock.Boot().Now()
	return nil
}

// excusedByService returns the spans in which the service may lose what it acknowledged.
func (c *campaign) excusedByService() (spans []history.Span) {
	for i := range c.faults.Rounds {
		ro := &c.faults.Rounds[i]
		switch spec := c.cfg.Service; {
		case spec.Keeps == service.KeepsDisk, !ro.LosesMemory() && ro.Kind != faults.Restart && ro.Kind != faults.RestartMany:
		case spec.Keeps == service.KeepsCopies && (!ro.LosesMemory() || 2*ro.Lost() < spec.Copies):
		default:
			spans = append(spans, ro.Span())
		}
	}
	return spans
}

// serviceSafety checks what callers from outside can see of a service.
func (r *Report) serviceSafety(c *campaign, records []history.Record) {
	if c.cfg.Service.Counter == nil {
		bad, checked := history.Contradictions(records, c.excusedByService())
		r.addInvariant(RegistersLinearizable, checked, formatViolations(c, bad, history.Contradiction.When))
		r.Linear.Counters, r.Linear.Requests = c.cfg.Counters, checked
		return
	}
	all, checked := history.Miscounts(records, c.excusedByService())
	of := func(reasons ...string) []string {
		return formatViolations(c, slices.DeleteFunc(slices.Clone(all), func(m history.Miscount) bool { return !slices.Contains(reasons, m.Why) }), history.Miscount.When)
	}
	r.addInvariant(AnsweredTwice, checked, of(history.AnsweredTwice))
	r.addInvariant(NothingLost+"as its callers saw it", checked, of(history.WentBack))
	r.addInvariant("each counter is linearizable", checked, of(history.AnsweredTwice, history.WentBack, history.NeverAsked))
	r.Linear.Counters, r.Linear.Requests = c.cfg.Counters, checked
}
