package view

import (
	"testing"
)

var mutantNames = map[mutant]string{
	mutantQuorumOfLiving: "quorum counted over the living", mutantLeaseFromAck: "leader lease counted from the receipt of answers",
	mutantEarlyRemoval: "removal before the lease has ended", mutantDropAttempt: "half-finished attempt dropped",
	mutantJoinerVotes: "joiner votes immediately", mutantLateEvidence: "evidence counts after its window",
	mutantViewGeneration: "generation from the view alone", mutantDeadOutFirst: "dead taken out before counting",
	mutantLeaseWhileCarrying: "lease while an attempt is carried", mutantLeaseToRemoved: "lease to a member under removal",
	mutantLeaseInOneView: "lease counted in one of two views", mutantEmergencyNextEpoch: "emergency view with the next epoch",
	mutantIgnorePromise: "promise ignored", mutantNoPreVote: "takeover without pre-vote",
	mutantOldRounds: "rounds from before the commit counted", mutantPromiseSelf: "candidate breaks its own promise",
	mutantStallRemoves: "leader that slept removes", mutantSinceBegan: "term counted from the prepare",
	mutantCarryTires: "carrying leader steps down", mutantAskOnce: "prepare sent once", mutantDeadSpeak: "yields to the dead",
	mutantPatientJoiner: "joiner waits forever", mutantLeaverTakesOver: "leaver takes over",
	mutantNoFarewell:     "leader leaves without a farewell",
	mutantCarryHopeless:  "attempt that needs the dead is carried",
	mutantOutbid:         "candidates outbid each other",
	mutantStrangersSpeak: "nodes outside the view speak",
	mutantWeakIsCertain:  "weak proofs count as certain", mutantWeakRemovesSoon: "removal by weak proof while the lease runs",
	mutantWideWindow: "proofs count after a weak removal",
	mutantCredulous:  "yields to one connection's word", mutantYieldsUnjudged: "yields to a verdict on another standing",
	mutantKeepsGeneration: "absorbs a cluster in the old generation", mutantPatientContest: "contest without an end",
}

const mutantSeeds = 6000

// TestMutants proves that the checks catch planted bugs: each by a scenario, or
// else by seeds or an exploration.
func TestMutants(t *testing.T) {
	for m := noMutant + 1; m < mutants; m++ {
		t.Run(mutantNames[m], func(t *testing.T) {
			if mutantNames[m] == "" {
				t.Fatal("has no name")
			}
			for _, s := range scenarios {
				if wrong := s.play(m); wrong != "" {
					t.Logf("scenario %q: %s", s.name, wrong)
					return
				}
			}
			if m == mutantOutbid { // needs an unlucky order every time: TestExploreFindsMutants
				if _, wrong := playMutant(m, "static quorum 3, evidence 0"); wrong == "" {
					t.Fatal("not caught by the exploration")
				}
				return
			}
			seed, wrong := playSeeds(1, mutantSeeds, m, nil)
			if wrong == "" {
				t.Fatalf("not caught by %d scenarios and %d seeds", len(scenarios), mutantSeeds)
			}
			t.Logf("seed %d: %s", seed, wrong)
		})
	}
}

// scenario is a directed trace. It runs with every mutant as well.
type scenario struct {
	name string
	run  func(w *world)
}

// play runs a scenario on a world with a planted bug and returns the failure.
func (s *scenario) play(m mutant) (wrong string) {
	w := newWorld(nil)
	w.mutant, w.quiet = m, true
	defer func() {
		if r := recover(); r != nil {
			if f, ok := r.(failure); ok && !f.setup {
				wrong = f.text
			}
		}
	}()
	s.run(w)
	return ""
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { s.run(newWorld(t)) })
	}
}
