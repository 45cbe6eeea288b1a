package replication

import (
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// expiry returns after which idle time a key ends, 0 for never. The longest prefix
// decides.
func (c *Core) expiry(key string) (after time.Duration) {
	longest := -1
	for _, e := range c.cfg.Expire {
		if len(e.Prefix) > longest && strings.HasPrefix(key, e.Prefix) {
			longest, after = len(e.Prefix), e.After
		}
	}
	return after
}

// expire deletes idle keys, looking at a part of the store.
func (c *Core) expire(now clock.Instant) {
	if len(c.cfg.Expire) == 0 || !c.leads() {
		return
	}
	e := &Entry{}
	looked := 0
	for range bucketCount {
		b := &c.store.buckets[c.idleCursor]
		c.idleCursor = (c.idleCursor + 1) % bucketCount
		looked += len(b.items)
		for _, it := range b.sorted() {
			if it.changedAt == 0 {
				it.changedAt = now // restored
			}
			after := c.expiry(it.key)
			if it.value == nil || after <= 0 || now.Sub(it.changedAt) < after {
				continue
			}
			c.store.absorb(it, it.gen+1, 0, nil)
			c.changed(it, nil)
			c.stats.Expired++
			c.trace(TraceEvent{Kind: TraceExpired, Key: it.key})
			e.Items = append(e.Items, Item{Key: it.key, Gen: it.gen})
		}
		if looked >= dropScanMax || len(e.Items) >= dropsMax {
			break
		}
	}
	if len(e.Items) > 0 {
		c.append(now, e)
	}
}
