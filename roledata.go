package peerage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/door"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/replicator"
)

// openData gives typed access to the data that r replicates.
func openData(r operation.Replicator) (*ddata.Data, error) {
	d := new(ddata.Data)
	connect, err := door.Open[func(operation.Replicator)](d)
	if err != nil {
		return nil, err
	}
	connect(r)
	return d, nil
}

// roleData is the data of a role, through all incarnations of the node. It passes requests
// to the replicator of the current incarnation, and keeps the subscriptions.
//
// Self is the incarnation that began last. An incarnation ends, and its replicator is
// closed, before the next one begins. So an update that is written in the name of Self
// reaches the replicator of that incarnation or none.
type roleData struct {
	n    *Node
	role string

	mu   sync.Mutex
	subs map[*roleSubscription]struct{}
}

func newRoleData(n *Node, role string) *roleData {
	return &roleData{n: n, role: role, subs: map[*roleSubscription]struct{}{}}
}

// now returns the replicator of the current incarnation.
func (d *roleData) now() (*replica.Replicator, error) {
	if s := d.n.stack.Load(); s != nil {
		return s.replicators[d.role], nil
	}
	select {
	case <-d.n.quit:
		return nil, ErrClosed
	default:
		return nil, ErrNotReady
	}
}

// notReady wraps an error in ErrNotReady if the node is in no view yet.
func notReady(err error) error {
	var few *replicator.Error
	if errors.As(err, &few) && few.Code == replicator.ErrTooFewMembers && few.Got == 0 {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return err
}

// Self implements operation.Replicator.
func (d *roleData) Self() gossip.NodeID { return d.n.Self().ID }

// WallTime implements operation.Replicator.
func (d *roleData) WallTime() time.Time { return d.n.cfg.WallClock() }

// Update implements operation.Replicator.
func (d *roleData) Update(ctx context.Context, ops []operation.Op, level replicator.Level, opts ...replicator.Option) error {
	r, err := d.now()
	if err != nil {
		return err
	}
	return notReady(r.Update(ctx, ops, level, opts...))
}

// Get implements operation.Replicator.
func (d *roleData) Get(ctx context.Context, keys []string, level replicator.Level, opts ...replicator.Option) ([]crdt.Value, error) {
	r, err := d.now()
	if err != nil {
		return nil, err
	}
	vs, err := r.Get(ctx, keys, level, opts...)
	return vs, notReady(err)
}

// View implements operation.Replicator.
func (d *roleData) View(ctx context.Context, key string, f func(crdt.Value)) error {
	r, err := d.now()
	if err != nil {
		return err
	}
	return r.View(ctx, key, f)
}

// Keys implements operation.Replicator.
func (d *roleData) Keys(ctx context.Context, prefix string) ([]string, error) {
	r, err := d.now()
	if err != nil {
		return nil, err
	}
	return r.Keys(ctx, prefix)
}

// Status implements operation.Replicator.
func (d *roleData) Status(ctx context.Context) (figures.Replicator, []figures.Replica, error) {
	r, err := d.now()
	if err != nil {
		return figures.Replicator{}, nil, err
	}
	return r.Status(ctx)
}

// Subscribe implements operation.Replicator.
func (d *roleData) Subscribe(pattern string, f func(operation.Change)) (cancel func()) {
	sub := &roleSubscription{pattern: pattern, f: f, shown: map[string]struct{}{}, detach: func() {}}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subs[sub] = struct{}{}
	if s := d.n.stack.Load(); s != nil {
		sub.attach(s.replicators[d.role])
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.subs, sub)
		sub.end()
	}
}

// adopt attaches the subscriptions to the replicator of a new incarnation. It is called
// once that incarnation is the node's.
func (d *roleData) adopt(r *replica.Replicator) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for sub := range d.subs { // order-free
		sub.attach(r)
	}
}

// roleSubscription is a subscription through all incarnations.
//
// Invariant: shown has the keys for which the last call of f had a value. f receives only
// changes of the replicator to which the subscription is attached.
type roleSubscription struct {
	pattern string
	f       func(operation.Change)

	mu     sync.Mutex
	at     *replica.Replicator // nil: ended, or not attached yet
	detach func()

	busy  sync.Mutex // held while f runs
	shown map[string]struct{}
}

func (s *roleSubscription) attach(r *replica.Replicator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == r {
		return
	}
	again := s.at != nil
	s.detach()
	s.at, s.detach = r, r.Subscribe(s.pattern, func(c operation.Change) { s.show(r, c) })
	if again {
		go s.showGone(r)
	}
}

func (s *roleSubscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach()
	s.at = nil
}

func (s *roleSubscription) attachedTo(r *replica.Replicator) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at == r
}

func (s *roleSubscription) show(r *replica.Replicator, c operation.Change) {
	s.busy.Lock()
	defer s.busy.Unlock()
	if !s.attachedTo(r) {
		return
	}
	if delete(s.shown, c.Key); c.Value != nil {
		s.shown[c.Key] = struct{}{}
	}
	s.f(c)
}

// settlePoll is the interval of checking whether a new incarnation has caught up.
const settlePoll = 50 * time.Millisecond

// showGone reports keys as gone that an earlier incarnation showed, and that do not exist
// once the new one has caught up with the other members. It ends with the replicator.
func (s *roleSubscription) showGone(r *replica.Replicator) {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		stats, _, err := r.Status(context.Background())
		if err != nil || !s.attachedTo(r) {
			return
		}
		if stats.Settled {
			break
		}
		<-tick.C
	}
	prefix, _ := strings.CutSuffix(s.pattern, "*")
	keys, err := r.Keys(context.Background(), prefix)
	if err != nil {
		return
	}
	there := map[string]bool{}
	for _, k := range keys {
		there[k] = true
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	for k := range s.shown { // order-free: each key stands for itself
		if !there[k] && s.attachedTo(r) {
			delete(s.shown, k)
			s.f(operation.Change{Key: k})
		}
	}
}
