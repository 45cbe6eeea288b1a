package server

import (
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/internal/harness"
)

// costEvery is how often a node reports what it costs: gathering takes a millisecond.
const costEvery = 500 * time.Millisecond

// cost returns what the process has taken so far.
func (s *server) cost() *harness.Cost {
	memory := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(memory)
	c := &harness.Cost{
		CPUMS: harness.Milliseconds(processorTime()), MemoryBytes: memory[0].Value.Uint64() - memory[1].Value.Uint64(),
		Goroutines: runtime.NumGoroutine(),
	}
	c.SentBytes, c.ReceivedBytes = traffic(s.registry)
	return c
}

// traffic returns the bytes of all counters of bytes of gossip and transport.
func traffic(from prometheus.Gatherer) (sent, received uint64) {
	families, err := from.Gather()
	if err != nil {
		return 0, 0
	}
	for _, f := range families {
		if f.GetName() != "peerage_transport_bytes_total" && f.GetName() != "peerage_gossip_bytes_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			switch n := uint64(m.GetCounter().GetValue()); {
			case labels["channel"] == "view": // the transport has counted them
			case labels["direction"] == "sent":
				sent += n
			default:
				received += n
			}
		}
	}
	return sent, received
}
