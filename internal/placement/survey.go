package placement

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/transport"
)

// The times of a survey. QueryTimeout bounds it if its context has no deadline. Every
// QueryAgain it sends the query again to the nodes that have not answered. When only
// disconnected nodes, or nodes that have left the view, are missing, it waits QueryGrace for
// one to come back; it looks every queryLook.
const (
	QueryTimeout = 3 * time.Second
	QueryAgain   = 500 * time.Millisecond
	QueryGrace   = 200 * time.Millisecond
	queryLook    = 50 * time.Millisecond
)

// Survey holds the answers of the members of a view to one query.
type Survey struct {
	View *gossip.View
	// Answers are by node. Members that did not answer in time are missing.
	Answers map[gossip.NodeID]*protocol.Answer
}

// Survey queries all members of the view and waits for their answers until ctx ends. It fails
// with failure.NotReady without a view, and with failure.NodeStopping if the Drivers end
// meanwhile.
func (ds *Drivers) Survey(ctx context.Context, q *protocol.Query) (*Survey, error) {
	ds.mu.Lock()
	v := ds.view
	ds.mu.Unlock()
	if v == nil {
		return nil, failure.NotReady
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, QueryTimeout)
		defer cancel()
	}
	id, ch, end := ds.queries.beginQuery(len(v.Members))
	defer end()
	q.ID = id
	s := &Survey{View: v, Answers: map[gossip.NodeID]*protocol.Answer{}}
	if v.Member(ds.cfg.Self.ID) != nil {
		s.Answers[ds.cfg.Self.ID] = ds.Answer(q)
	}
	if err := ds.collectAnswers(ctx, s, q, ch); err != nil {
		return nil, err
	}
	return s, nil
}

// collectAnswers sends the query, again and again, until all have answered that can, or
// ctx ends.
func (ds *Drivers) collectAnswers(ctx context.Context, s *Survey, q *protocol.Query, ch <-chan answered) error {
	frame := protocol.Append(nil, q)
	again := time.NewTicker(QueryAgain)
	defer again.Stop()
	look := time.NewTicker(queryLook)
	defer look.Stop()
	var lost time.Time
	send := true
	for len(s.Answers) < len(s.View.Members) {
		for i := range s.View.Members {
			if n := s.View.Members[i].ID; send && n != ds.cfg.Self.ID && s.Answers[n] == nil {
				// A query that cannot be sent now may be sent the next time.
				_ = ds.cfg.Links.Send(n, transport.Control, transport.KindCoordinator, frame)
			}
		}
		send = false
		select {
		case a := <-ch:
			if s.View.Member(a.from) != nil && a.Type == q.Type {
				s.Answers[a.from] = a.Answer
			}
		case <-again.C:
			send = true
		case now := <-look.C:
			switch {
			case !ds.allLost(s):
				lost = time.Time{}
			case lost.IsZero():
				lost = now
			case now.Sub(lost) >= QueryGrace:
				return nil
			}
		case <-ds.env.Ctx.Done():
			return failure.NodeStopping
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// allLost reports whether no answer can come at present: the connections to all nodes that
// have not answered are lost, or the view is without them by now.
func (ds *Drivers) allLost(s *Survey) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for i := range s.View.Members {
		n := s.View.Members[i].ID
		if s.Answers[n] == nil && !ds.silent[n] && ds.view.Member(n) != nil {
			return false
		}
	}
	return true
}

// Missing returns the members that did not answer.
func (s *Survey) Missing() (out []*gossip.Member) {
	for i := range s.View.Members {
		if m := &s.View.Members[i]; s.Answers[m.ID] == nil {
			out = append(out, m)
		}
	}
	return out
}

// Home returns the member that runs the shard of the query, under which token, and whether the
// entity of the query lives there; nil if no answer names one. A shard in the middle of a move
// is in one place at most. If two members report it, the higher token is right.
func (s *Survey) Home() (home *gossip.Member, token protocol.Token, lives bool) {
	for i := range s.View.Members {
		m := &s.View.Members[i]
		if a := s.Answers[m.ID]; a != nil && len(a.Shards) > 0 && token.Less(a.Shards[0].Token) {
			home, token, lives = m, a.Shards[0].Token, a.Lives
		}
	}
	return home, token, lives
}
