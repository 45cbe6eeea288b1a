package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// measures are in the order of the table.
func measures() []measure {
	return []measure{
		{"remote-tell", measureRemoteTell}, {"remote-ask", measureRemoteAsk},
		{"ask-beside-tells", measureAskBesideTells}, {"ask-beside-large", measureAskBesideLarge},
		{"local-tell", measureLocalTell}, {"local-ask", measureLocalAsk}, {"idle", measureIdle},
		{"failover", measureFailover}, {"leave", measureLeave}, {"rebalance", measureRebalance},
		{"balance", measureBalance}, {"cold-start", measureColdStart},
	}
}

// MeasureNames lists the measures.
func MeasureNames() string {
	var names []string
	for _, m := range measures() {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

// New prepares a run that shows its rows on out. It fails if cfg names an unknown
// measure.
func New(cfg *Config, out io.Writer) (*Suite, error) {
	chosen, err := cfg.choose()
	if err != nil {
		return nil, err
	}
	return &Suite{cfg: cfg, chosen: chosen, out: out, began: time.Now()}, nil
}

func (c *Config) choose() ([]measure, error) {
	if len(c.Only) == 0 {
		return measures(), nil
	}
	var out []measure
	for _, name := range c.Only {
		i := slices.IndexFunc(measures(), func(m measure) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--only %q: choose of %s", name, MeasureNames())
		}
		out = append(out, measures()[i])
	}
	return out, nil
}
