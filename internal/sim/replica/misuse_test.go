package replica

import (
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/replicator"
)

// A replica that has just loaded its file admits nothing once it has kept as many own writes as
// it may. It then refuses a faulty request for that, whatever its fault (seed 1112531).
func TestFaultyRequestsAtAReplicaThatAdmitsNone(t *testing.T) {
	const logEntries = 2
	w := newWorld(t, func(c *seed.Config) { c.Disks, c.Requests, c.LogEntries = true, true, logEntries })
	if err := w.write(t, 0, "kept"); err != nil {
		t.Fatal(err)
	}
	w.kill(0)
	w.start(0) // fresh: it is in no view
	c := w.nodes[0].node.requests[0]
	for i := range logEntries + 1 {
		if admits := c.admits(); admits != (i < logEntries) {
			t.Fatalf("after %d own writes: admits %v", i, admits)
		}
		if err := w.writeLocal(t, 0, keyKept+"0", false); (err == nil) != (i < logEntries) {
			t.Fatalf("own write %d: %v", i, err)
		}
	}
	all := c.misusedRequests()
	for _, m := range all {
		if what := failure(func() { c.makeMisused(m) }); what != "" {
			t.Errorf("%s: %s", m.name, what)
		}
	}
	if n := w.run.Coverage.Counts()[coverage.Misused.String()]; n != len(all) {
		t.Errorf("%d of %d requests were refused", n, len(all))
	}
	// With room again, the fault itself is the reason.
	w.install()
	w.play(time.Second)
	if !c.admits() {
		t.Fatal("a replica that is no longer fresh admits no request")
	}
	for _, m := range c.misusedRequests() {
		want := m.code
		if m.code = replicator.ErrFenced; want == replicator.ErrFenced {
			t.Fatalf("%s: expects ErrFenced", m.name)
		}
		if what := failure(func() { c.makeMisused(m) }); !strings.HasPrefix(what, "requests") {
			t.Errorf("%s: a refusal for another reason stops the run with %q", m.name, what)
		}
	}
}

// TestFaultyRequestsInTheStepInWhichADiskFails checks that the client expects the refusals of a
// replica whose disk turns out to fail with what is due when the request is made (seed 1330070).
func TestFaultyRequestsInTheStepInWhichADiskFails(t *testing.T) {
	const requests = 200 // each kind of faulty request is drawn several times
	w := newWorld(t, func(c *seed.Config) { c.Disks, c.Requests = true, true })
	if err := w.write(t, 0, "kept"); err != nil {
		t.Fatal(err)
	}
	c := w.nodes[0].node.requests[0]
	disk := c.d.disk
	disk.host.fails = true
	for range requests {
		disk.reported, disk.unsaved[keyWords] = false, true
		disk.core.DiskFails(nil)
		if what := failure(c.makeMisuse); what != "" {
			t.Fatal(what)
		}
		if !disk.reported {
			t.Fatal("the replica has not seen that its disk fails")
		}
	}
	if n := w.run.Coverage.Counts()[coverage.Misused.String()]; n != requests {
		t.Errorf("%d of %d requests were refused", n, requests)
	}
}
