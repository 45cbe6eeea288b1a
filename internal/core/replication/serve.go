package replication

// What a session asks of others is answered here. Nothing is remembered between
// two answers.

func (c *Core) onCompare(p *peer, m *Compare) {
	if len(m.Sums) != bucketCount {
		return
	}
	out := &Differ{Session: m.Session, Ask: m.Ask, Epoch: c.epoch, Next: bucketCount, Vector: c.vector(), Fences: c.fences.all()}
	size := 0
	for i := m.Start; i < bucketCount; i++ {
		b := &c.store.buckets[i]
		if b.sum == m.Sums[i] {
			continue
		}
		if size > c.cfg.Limits.FrameBytes/2 {
			out.Next = i
			break
		}
		for _, it := range b.sorted() {
			out.Keys = append(out.Keys, it.key)
			out.Prints = append(out.Prints, it.print)
			size += len(it.key) + 10
		}
	}
	c.send(p, out)
}

func (c *Core) onFetch(p *peer, m *Fetch) {
	out := &Values{Floor: c.floor, Horizon: c.horizon, Session: m.Session, Ask: m.Ask}
	size, most := 0, min(c.cfg.Limits.FrameBytes, m.Credit)
	for _, k := range m.Keys {
		it := c.store.get(k)
		if it != nil && size > 0 && size+it.bytes+len(k)+12 > most {
			break
		}
		out.Answered++
		if it != nil {
			out.Items = append(out.Items, full(it))
			size += out.Items[len(out.Items)-1].size()
		}
	}
	c.stats.ValuesSent += uint64(len(out.Items))
	c.send(p, out)
}
