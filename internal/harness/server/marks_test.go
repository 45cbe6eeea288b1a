package server

import (
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// Evidence of a death and views without a member reach the history; other messages do not.
func TestMarksOfAFailoverAreRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.history")
	w, err := history.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &marker{Handler: slog.NewTextHandler(io.Discard, nil), history: w, clock: clock.Boot(), self: func() gossip.NodeID { return 5 }}
	log := slog.New(m).With("part", "membership").WithGroup("g")
	log.Debug("taken for dead", "node", "a", "subject", gossip.NodeID(7).String())
	log.Debug("view", "subject", gossip.NodeID(8).String())
	log.Debug("proven dead", "node", "a")
	m.onEvent(gossip.MemberRemoved{Member: gossip.Member{Node: gossip.Node{ID: 9}}})
	m.onEvent(gossip.QuorumLost{})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := history.Read(file)
	if err != nil || len(got) != 2 || got[0].Op != history.Suspected || got[0].Sender != 7 || got[1].Op != history.Excluded || got[1].Sender != 9 || got[0].Node != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}
