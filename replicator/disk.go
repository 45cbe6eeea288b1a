package replicator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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
	// stampAt is when the file next learns that it is still in use.
	stampAt clock.Instant
	// broken is why the file could not be taken in whole. Nothing is written then: it
	// would go over what was not read.
	broken error
	// failing is why the last write did not succeed, or broken; nil while all is well.
	failing error
}

// keep returns what the core must know of it.
func (d *disk) keep(to *Durable) func(string) bool {
	d.to, d.dirty, d.writeAt, d.stampAt = to, map[string]struct{}{}, clock.Never, clock.Never
	if to == nil {
		return nil
	}
	return to.covers
}

func (d *disk) retain() time.Duration {
	if d.to == nil {
		return 0
	}
	return d.to.cfg.Retain
}

// restore hands the file's content to the core.
func (l *loop) restore() {
	if l.disk.to == nil {
		return
	}
	// The file has been read once, by OpenDurable: only limits are likely to stand in
	// the way.
	var ended []core.Ended
	err := l.disk.to.read(func(rec record) error {
		ended = append(ended, rec.ended...)
		return l.core.Restore([]core.Item{rec.Item})
	})
	memory, merr := l.disk.to.memory()
	l.core.Recall(l.r.cfg.Clock.Now(), memory, ended)
	l.disk.stampAt = l.r.cfg.Clock.Now().Add(stampEvery)
	if err = errors.Join(err, merr); err != nil {
		l.disk.broken = fmt.Errorf("%w: %s: not taken in whole, so nothing is written to it: %w", ErrDurable, l.disk.to.cfg.Path, err)
		l.diskFails(l.disk.broken)
		l.r.cfg.Logger.Error("replicator: durable keys are incomplete", "role", l.r.cfg.Role, "error", err)
		l.stats.DurableErrors++
	}
}

// diskFails says, to the core too, that the disk fails, or does so no longer.
func (l *loop) diskFails(why error) {
	l.disk.failing = why
	l.core.DiskFails(why)
	l.r.diskFailing.Store(why != nil)
}

// save brings the file up to date if it is time. An error means that what the last steps
// ask for must not be done; while the disk has been failing for longer, nothing of that
// rests on it.
func (l *loop) save() error {
	failing := l.disk.failing != nil
	if err := l.store(); err != nil && !failing {
		return err
	}
	return nil
}

func (l *loop) store() error {
	d := &l.disk
	if d.to == nil {
		return nil
	}
	if l.out.SetAside {
		l.putAside()
	}
	for _, k := range slices.Concat(l.out.Changed, l.out.Forgotten) {
		if d.to.covers(k) {
			d.dirty[k] = struct{}{}
		}
	}
	now := l.r.cfg.Clock.Now()
	if d.failing != nil && now.Before(d.stampAt) {
		return d.failing
	}
	if !now.Before(d.stampAt) {
		return l.flushDisk(now)
	}
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
	if len(d.dirty) == 0 && now.Before(d.stampAt) {
		return nil
	}
	d.stampAt = now.Add(stampEvery)
	if d.broken != nil && len(d.dirty) == 0 {
		return nil
	}
	if d.broken != nil {
		d.writeAt, d.stampAt = clock.Never, now.Add(stampEvery)
		return d.broken
	}
	var records []record
	var gone []string
	for _, k := range slices.Sorted(maps.Keys(d.dirty)) {
		it, ok := l.core.State(k)
		if !ok {
			gone = append(gone, k)
			continue
		}
		records = append(records, record{it, l.core.Ended(k)})
	}
	l.stats.DurableWrites++
	if err := d.to.write(l.core.Memory(now), records, gone...); err != nil {
		l.stats.DurableErrors++
		if d.stampAt = now.Add(diskRetry); len(d.dirty) > 0 {
			d.writeAt = d.stampAt
		}
		l.diskFails(err)
		l.warn("replicator: cannot store durable keys; writes of them fail here until the disk works again", "error", err)
		return err
	}
	if clear(d.dirty); d.failing != nil {
		l.diskFails(nil)
		l.r.cfg.Logger.Info("replicator: durable keys are stored again", "role", l.r.cfg.Role)
	}
	d.writeAt = clock.Never
	return nil
}

// diskRetry is the wait after a write that has failed.
const diskRetry = warnEvery / 10

// stampEvery is how often a file that is not written to learns that it is in use.
const stampEvery = time.Minute

// putAside keeps a copy of a file that was away for too long, and begins it anew.
func (l *loop) putAside() {
	d := &l.disk
	path, err := d.to.setAside(time.Now())
	if err != nil {
		d.broken = fmt.Errorf("%w: %s: was away for too long and cannot be set aside, so nothing is written to it: %w", ErrDurable, d.to.cfg.Path, err)
		l.diskFails(d.broken)
		l.r.cfg.Logger.Error("replicator: cannot set durable keys aside", "role", l.r.cfg.Role, "error", d.broken)
		l.stats.DurableErrors++
		return
	}
	l.r.cfg.Logger.Error("replicator: the file of durable keys was away for too long; it was set aside, and the others fill this node",
		"role", l.r.cfg.Role, "file", d.to.cfg.Path, "copy", path, "keys", l.core.Stats().SetAside)
	for _, k := range l.core.KeptKeys() {
		d.dirty[k] = struct{}{}
	}
}

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
