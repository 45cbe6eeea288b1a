package replicator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator/core"
)

// disk is the loop's way to the file of durable keys.
//
// Invariant: dirty has the keys whose state in the file is not the newest; writeAt is
// set if there are any.
type disk struct {
	to      *Durable
	dirty   map[string]struct{}
	writeAt clock.Instant
	// broken is why the file could not be taken in whole. Nothing is written then: it
	// would go over what was not read.
	broken error
}

// keep returns what the core must know of it.
func (d *disk) keep(to *Durable) func(string) bool {
	d.to, d.dirty, d.writeAt = to, map[string]struct{}{}, clock.Never
	if to == nil {
		return nil
	}
	return to.covers
}

// restore hands the file's content to the core.
func (l *loop) restore() {
	if l.disk.to == nil {
		return
	}
	// The file has been read once, by OpenDurable: only limits are likely to stand in
	// the way.
	if err := l.disk.to.read(func(it core.Item) error { return l.core.Restore([]core.Item{it}) }); err != nil {
		l.disk.broken = fmt.Errorf("%w: %s: not taken in whole, so nothing is written to it: %w", ErrDurable, l.disk.to.cfg.Path, err)
		l.r.cfg.Logger.Error("replicator: durable keys are incomplete", "role", l.r.cfg.Role, "error", err)
		l.stats.DurableErrors++
	}
}

// save brings the file up to date if it is time.
func (l *loop) save() error {
	d := &l.disk
	if d.to == nil {
		return nil
	}
	for _, k := range l.out.Changed {
		if d.to.covers(k) {
			d.dirty[k] = struct{}{}
		}
	}
	now := l.r.cfg.Clock.Now()
	if len(d.dirty) > 0 && d.writeAt == clock.Never {
		d.writeAt = now.Add(d.to.cfg.Sync)
	}
	if d.to.cfg.Sync > 0 && now.Before(d.writeAt) {
		return nil
	}
	return l.flushDisk(now)
}

// flushDisk writes all that is dirty.
func (l *loop) flushDisk(now clock.Instant) error {
	d := &l.disk
	if len(d.dirty) == 0 {
		return nil
	}
	if d.broken != nil {
		d.writeAt = now.Add(diskRetry)
		return d.broken
	}
	var items []core.Item
	for _, k := range slices.Sorted(maps.Keys(d.dirty)) {
		if it, ok := l.core.State(k); ok {
			items = append(items, it)
		}
	}
	l.stats.DurableWrites++
	if err := d.to.write(items); err != nil {
		l.stats.DurableErrors++
		d.writeAt = now.Add(diskRetry)
		l.warn("replicator: cannot store durable keys", "error", err)
		return err
	}
	clear(d.dirty)
	d.writeAt = clock.Never
	return nil
}

// diskRetry is the wait after a write that has failed.
const diskRetry = warnEvery / 10

// retract takes back what must not be said while the file is behind: answers to
// others, who will ask again, and to callers, who learn that the outcome is unknown.
func (l *loop) retract(err error) {
	if l.disk.to.cfg.Sync > 0 {
		return
	}
	l.out.Send = nil
	for i := range l.out.Reply {
		if rep := &l.out.Reply[i]; rep.Err == nil {
			rep.Err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
	}
}
