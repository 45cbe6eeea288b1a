package main

import (
	"github.com/peerage-go/peerage/sharding/strategy"
)

// planned disturbances lose no state.
var planned = []kind{hold, breakLink, lag, elsewhere}

// plans returns the explorations of `.ci/spec`; of the long form if full is set.
func plans(full bool) []plan {
	to := func(i int) []action { return []action{{kind: move, a: i}} }
	out := []plan{
		{name: "allocation", unallocated: true, wishes: []action{{kind: need, a: 0}, {kind: need, a: 2}}, faults: planned, budget: 1, span: 3 * resend},
		{name: "allocation, a crash", unallocated: true, ownFirst: true, wishes: []action{{kind: need, a: 2}}, faults: []kind{crash}, budget: 1, span: 2 * resend},
		{name: "a move", wishes: to(1), faults: planned, budget: 1, span: 3 * resend},
		{name: "a move, twice disturbed", ownFirst: true, wishes: to(2), faults: planned, budget: 2, span: 2 * resend},
		{name: "a move, a crash", ownFirst: true, wishes: to(2), faults: []kind{crash}, budget: 1, span: 2 * resend},
		{name: "a move, a lease lapses", ownFirst: true, wishes: to(2), faults: []kind{expire}, budget: 1, span: 2 * resend},
		{name: "a move, wrong proof", ownFirst: true, wishes: to(2), faults: []kind{misjudge}, budget: 1, span: 2 * resend},
		{name: "two moves", ownFirst: true, wishes: []action{{kind: move, a: 2}, {kind: move, a: 1}}, faults: []kind{hold}, budget: 1, span: resend},
		{name: "a drain", leastShards: true, ownFirst: true, wishes: []action{{kind: drain, a: 0}}, faults: planned, budget: 1, span: 3 * resend},
		{name: "a leave", ownFirst: true, wishes: []action{{kind: leave, a: 1}}, span: resend},
		{name: "the coordinator leaves", unallocated: true, ownFirst: true, wishes: []action{{kind: need, a: 2}, {kind: leave, a: 0}}, span: resend},
		{name: "the coordinator of two leaves in a move", up: 2, ownFirst: true, wishes: []action{{kind: move, a: 1}, {kind: leave, a: 0}}, span: resend},
		{name: "a join", up: 2, leastShards: true, ownFirst: true, wishes: []action{{kind: join, a: 2}}, faults: planned, budget: 1, span: 2 * resend},
		{name: "two crashes", faults: []kind{crash}, budget: 2, span: 3 * resend},
		{name: "a node is cut off", faults: []kind{isolate}, budget: 1, span: 3 * resend},
		{name: "wrong proof", ownFirst: true, faults: []kind{misjudge, hold, lag}, budget: 2, span: 2 * resend},
		{name: "another cluster is met", ownFirst: true, wishes: []action{{kind: meet, a: 0}}, span: 3 * resend},
		{name: "a cluster yields", ownFirst: true, wishes: []action{{kind: yield, a: 0}}, faults: planned, budget: 1, span: 3 * resend},
		{name: "a takeover in a move", ownFirst: true, wishes: []action{{kind: move, a: 2}, {kind: takeOver, a: 0}}, span: 3 * resend},
	}
	for i := range out {
		p := &out[i]
		if p.up == 0 {
			p.up = nodes
		}
		if !p.leastShards {
			p.strategy = strategy.External{}
		}
		if full {
			p.budget++
			p.faults = []kind{hold, breakLink, lag, elsewhere, crash, isolate, expire, misjudge}
			p.span += resend
		}
	}
	return out
}
