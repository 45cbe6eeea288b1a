package faults

import "context"

// Play deals a fault of a kind.
func (in *Injector) Play(ctx context.Context, kind Kind) (*Round, error) {
	return in.deal(ctx, kind, plays[kind])
}

// Renew restarts the process at a place: in place, or by a successor elsewhere that is
// ready before the process ends.
func (in *Injector) Renew(ctx context.Context, place int, inPlace bool) (*Round, error) {
	return in.deal(ctx, Restart, func(ctx context.Context, in *Injector, r *Round) error {
		if inPlace {
			return in.replaceProcess(ctx, r, place)
		}
		return in.overtake(ctx, r, place)
	})
}

// plays are what the kinds do. Each returns when all processes agree again.
var plays = map[Kind]func(context.Context, *Injector, *Round) error{
	Kill: func(ctx context.Context, in *Injector, r *Round) error { return in.kill(ctx, r, 1) },
	KillMany: func(ctx context.Context, in *Injector, r *Round) error {
		return in.kill(ctx, r, in.drawMortalCount())
	},
	KillRest: func(ctx context.Context, in *Injector, r *Round) error { return in.kill(ctx, r, in.Fleet.Size()-1) },
	Stop: func(ctx context.Context, in *Injector, r *Round) error {
		return in.hold(ctx, r, in.heldFor())
	},
	Cut:     func(ctx context.Context, in *Injector, r *Round) error { return in.playCut(ctx, r) },
	CutPair: func(ctx context.Context, in *Injector, r *Round) error { return in.playCutPair(ctx, r) },
	Reject:  func(ctx context.Context, in *Injector, r *Round) error { return in.playReject(ctx, r) },
	OneWay:  func(ctx context.Context, in *Injector, r *Round) error { return in.playOneWay(ctx, r) },
	Ring:    func(ctx context.Context, in *Injector, r *Round) error { return in.playRing(ctx, r) },
	Loss:    func(ctx context.Context, in *Injector, r *Round) error { return in.playLoss(ctx, r) },
	Delay:   func(ctx context.Context, in *Injector, r *Round) error { return in.playDelay(ctx, r) },
	Slow:    func(ctx context.Context, in *Injector, r *Round) error { return in.slow(ctx, r) },
	Late:    func(ctx context.Context, in *Injector, r *Round) error { return in.playLate(ctx, r) },
	Clock:   func(ctx context.Context, in *Injector, r *Round) error { return in.playClock(ctx, r) },
	Disk:    func(ctx context.Context, in *Injector, r *Round) error { return in.playDisk(ctx, r) },
	Freeze:  func(ctx context.Context, in *Injector, r *Round) error { return in.hold(ctx, r, HeldMax) },
	Drain: func(ctx context.Context, in *Injector, r *Round) error {
		return in.drainProcess(ctx, r, in.drawOneMortal())
	},
	Restart: func(ctx context.Context, in *Injector, r *Round) error {
		return in.restart(ctx, r, in.drawOneMortal())
	},
	RestartMany: func(ctx context.Context, in *Injector, r *Round) error {
		return in.restartMany(ctx, r, in.drawMortal()[:in.drawMortalCount()])
	},
}

// Exists reports whether there is such a fault.
func (k Kind) Exists() bool { return plays[k] != nil }
