package load

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/harness/defect"
	"github.com/peerage-go/peerage/sharding"
)

type (
	askFunc  = func(ctx context.Context, id string) (total uint64, err error)
	tellFunc = func(ctx context.Context, id string, number uint64) error
)

const (
	// askEvery is one in how many asks shows a defect of the asks.
	askEvery = 5
	// mutedAfter is after how many asks of a process counter 0 has no answer.
	mutedAfter = 20
	// wrongBy is how far a wrong answer is off.
	wrongBy = 1 << 20
)

// PlantAsk returns ask with the defect of this process, if that is one of the asks. The
// instance answers in place of the counter's home.
func PlantAsk(ask askFunc, instance *Counter) askFunc {
	var asks atomic.Uint64
	switch defect.Active() {
	case defect.TwoInstances:
		return answerHere(ask, instance)
	case defect.WrongAnswer:
		return func(ctx context.Context, id string) (uint64, error) {
			total, err := ask(ctx, id)
			if err == nil && defect.Every(asks.Add(1), askEvery) {
				total += wrongBy
			}
			return total, err
		}
	case defect.Mute:
		return func(ctx context.Context, id string) (uint64, error) {
			if id == CounterID(0) && asks.Add(1) > mutedAfter {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return ask(ctx, id)
		}
	}
	return ask
}

// answerHere answers some asks of counter 0 from an instance on the calling node.
func answerHere(ask askFunc, instance *Counter) askFunc {
	var mu sync.Mutex
	asks := uint64(0)
	return func(ctx context.Context, id string) (uint64, error) {
		if id == CounterID(0) {
			mu.Lock()
			defer mu.Unlock()
			if asks++; defect.Every(asks, askEvery) {
				return instance.add(sharding.Token{}, Add{N: 1}).Total, nil
			}
		}
		return ask(ctx, id)
	}
}

// PlantTell returns tell with the defect of this process, if that is one of the tells.
func PlantTell(tell tellFunc) tellFunc {
	if defect.Active() != defect.Reorder {
		return tell
	}
	return func(ctx context.Context, id string, number uint64) error {
		err := tell(ctx, id, number)
		if err == nil && number > 1 && defect.Every(number, askEvery) {
			return tell(ctx, id, number-1)
		}
		return err
	}
}

// PlantProducer returns producer with the defect of this process, if that is one of reliable
// messages.
func PlantProducer(producer ReliableProducer) ReliableProducer {
	if defect.Active() != defect.Reorder {
		return producer
	}
	return reordering{producer}
}

// reordering sends some messages a second time, behind their successor.
type reordering struct{ ReliableProducer }

// Send sends a message, and some earlier ones again.
func (p reordering) Send(ctx context.Context, id string, m Add) error {
	err := p.ReliableProducer.Send(ctx, id, m)
	if err == nil && m.Number > 1 && defect.Every(m.Number, askEvery) {
		m.Number--
		return p.ReliableProducer.Send(ctx, id, m)
	}
	return err
}
