package replication

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// scenario plays in a world and returns the violation that it sees, "" if none.
type scenario func(t *testing.T) string

// plantedScenarios see nothing wrong, but with a planted bug.
var plantedScenarios = []struct {
	bug, name string
	scenario
	// long is played with the bug, if it takes more seeds than without it.
	long scenario
}{
	{bug: "no write-back", name: "no write-back", scenario: registerReadTwice},
	{bug: "no write-back", name: "no write-back, at random", scenario: registerAtRandom(5), long: registerAtRandom(200)},
	{bug: "no joint quorums", name: "no joint quorums", scenario: registerAcrossViews},
	{bug: "stamps above the own ones", name: "stamps above the own ones", scenario: registerWrittenTwice},
	{bug: "write confirmed by its own replica", name: "write confirmed by its own replica", scenario: registerCutOff},
	{bug: "majority requests without a lease", name: "majority requests without a lease", scenario: removedMajority},
	{bug: "majority counted over the reachable", name: "majority counted over the reachable", scenario: registerInAMinority},
	{bug: "every term passes a fence", name: "every term passes a fence", scenario: replacedWriter},
	{bug: "answers of a later view", name: "answers of a later view", scenario: ackOfALaterView},
	{bug: "a stream's progress as confirmation", name: "a stream's progress as confirmation", scenario: lostNack},
	{bug: "parts without effect are not confirmed", name: "parts without effect are not confirmed", scenario: partWithoutEffect},
	{bug: "a newcomer needs a majority", name: "a newcomer needs a majority", scenario: newcomerOfThree},
	{bug: "a majority is enough after a view that was missed", name: "a majority is enough after a view that was missed", scenario: skippedView},
	{bug: "answers from before the view was settled", name: "answers from before the view was settled", scenario: answerBeforeTheRest},
	{bug: "settled is caught up", name: "settled is caught up", scenario: settledNewcomer},
	{bug: "a report counts for an exchange before it", name: "a report counts for an exchange before it", scenario: peerThatCatchesUpLater},
	{bug: "helpers are trusted", name: "helpers are trusted", scenario: helpersOfAJoiner},
	{bug: "any file is merged", name: "any file is merged", scenario: fileAwayTooLong},
	{bug: "new durable keys begin at 0", name: "new durable keys begin at 0", scenario: fileWithAForgottenDeletion},
	{bug: "deletions are young again at every start", name: "deletions are young again at every start", scenario: wholeKeys.with(restartsInTurn)},
	{bug: "a file that missed a sweep is set aside", name: "a file that missed a sweep is set aside", scenario: downForMonths},
	{bug: "unconfirmed deletions are old", name: "unconfirmed deletions are old", scenario: wholeKeys.deletionThatNoPeerHas},
	{bug: "a replica with a file takes part immediately", name: "a replica with a file takes part immediately", scenario: fileAwayTooLong},
	{bug: "entries under durable keys are forgotten immediately", name: "entries under durable keys are forgotten immediately", scenario: mapEntries.with(awayTooLong)},
	{bug: "any file is merged", name: "any file is merged, with entries", scenario: mapEntries.with(awayTooLong)},
	{bug: "a replica with a file takes part immediately", name: "a replica with a file takes part immediately, with entries", scenario: mapEntries.with(awayTooLong)},
	{bug: "deletions are young again at every start", name: "deletions of entries are young again at every start", scenario: mapEntries.with(restartsInTurn)},
	{bug: "a file that missed a sweep is set aside", name: "a file with entries that missed a sweep is set aside", scenario: entriesDownForMonths},
	{bug: "unconfirmed deletions are old", name: "unconfirmed deletions of entries are old", scenario: mapEntries.deletionThatNoPeerHas},
	{bug: "all are even", name: "all are even", scenario: wholeKeys.deletionThatDidNotArrive},
	{bug: "all are even", name: "all are even, with entries", scenario: mapEntries.deletionThatDidNotArrive},
	{bug: "the newest forgotten stamp is lost", name: "the newest forgotten stamp is lost", scenario: entryAboveTheCeiling},
	{bug: "sweeps do not wait for the log", name: "sweeps do not wait for the log", scenario: entryInAnOldLog},
	{bug: "any member agrees to a sweep", name: "any member agrees to a sweep", scenario: wholeKeys.with(memberThatWasNotFilled)},
	{bug: "any member agrees to a sweep", name: "any member agrees to a sweep, with entries", scenario: mapEntries.with(memberThatWasNotFilled)},
	{bug: "frames from before a commit are accepted", name: "frames from before a commit are accepted", scenario: entryInAnOldLog},
	{bug: "stamps by the own clock alone", name: "stamps by the own clock alone", scenario: jumpingClocks(3), long: jumpingClocks(60)},
	{bug: "stamps of any time are accepted", name: "stamps of any time are accepted", scenario: centuryFromWriter},
	{bug: "stamps are sent before a clock was received", name: "stamps are sent before a clock was received", scenario: aloneIn2099},
	{bug: "no write beyond stamps that are ahead", name: "no write beyond stamps that are ahead", scenario: jumpingFiles(3), long: jumpingFiles(25)},
	{bug: "a higher era replaces a lower one", name: "a higher era replaces a lower one", scenario: eraWhileOthersWrite},
	{bug: "refused items are claimed", name: "refused items are claimed", scenario: refusedAndClaimed},
	{bug: "only own changes end idleness", name: "only own changes end idleness", scenario: keyInUse},
	{bug: "deletions are committed without the fences", name: "deletions are committed without the fences", scenario: termOfForgottenDeletions},
	{bug: "shares stay apart if one has gone", name: "shares stay apart if one has gone", scenario: sharesThatHaveGone},
}

// TestScenariosOfPlantedBugs plays each scenario without its bug: what catches a bug must not
// see one where there is none.
func TestScenariosOfPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, c := range plantedScenarios {
		t.Run(c.name, func(t *testing.T) {
			if wrong := c.scenario(t); wrong != "" {
				t.Fatalf("without the bug: %s", wrong)
			}
		})
	}
}

// registers is a world with one register whose history porcupine judges. Nothing
// spreads beyond what requests ask for.
func registers(t *testing.T, n int) *history {
	w := newWorld(t, 1, n, func(c *Config) { c.NoStream, c.NoGossip, c.SpreadMax = true, true, time.Minute })
	return &history{campaign: &campaign{world: w, o: oracle{}, nextID: 10}, open: map[gossip.NodeID]int{}}
}

func (h *history) verdict() string {
	if res := porcupine.CheckOperationsTimeout(registerModel, h.decided(), 20*time.Second); res != porcupine.Ok {
		var ops []string
		for _, op := range h.ops {
			ops = append(ops, registerModel.DescribeOperation(op.Input, op.Output))
		}
		return fmt.Sprintf("%s: %s", res, strings.Join(ops, ", "))
	}
	return ""
}

// only lets frames pass among some nodes.
func (h *history) only(among ...gossip.NodeID) {
	in := map[gossip.NodeID]bool{}
	for _, id := range among {
		in[id] = true
	}
	h.cut = func(a, b gossip.NodeID) bool { return !in[a] || !in[b] }
}

// registerReadTwice: a value that one read has seen at one of its replicas is seen by
// the next one, which asks others.
func registerReadTwice(t *testing.T) string {
	h := registers(t, 5)
	h.only(1, 2)
	h.writeLate(1)
	h.run(3 * time.Second)
	h.only(2, 3, 4)
	h.readAt(2)
	h.run(3 * time.Second)
	h.only(3, 4, 5)
	h.readAt(3)
	h.run(3 * time.Second)
	return h.verdict()
}

// registerWrittenTwice: a writer that knows nothing of what was acknowledged before.
func registerWrittenTwice(t *testing.T) string {
	h := registers(t, 3)
	h.only(1, 2)
	h.writeAt(1)
	h.run(3 * time.Second)
	h.writeAt(1)
	h.run(3 * time.Second)
	h.only(2, 3)
	h.writeAt(3)
	h.run(3 * time.Second)
	h.readAt(3)
	h.run(3 * time.Second)
	return h.verdict()
}

// registerCutOff: a writer that reaches nobody.
func registerCutOff(t *testing.T) string {
	h := registers(t, 5)
	h.only(1)
	h.writeLate(1)
	h.run(3 * time.Second)
	h.only(2, 3, 4, 5)
	h.readAt(2)
	h.run(3 * time.Second)
	return h.verdict()
}

// writeLate is the second phase of a write alone, as of a node that has just read.
func (h *history) writeLate(id gossip.NodeID) {
	h.n++
	value := fmt.Sprint(id, "/", h.n)
	at := len(h.ops)
	h.ops = append(h.ops, porcupine.Operation{ClientId: h.clients, Input: value, Output: "", Call: int64(h.now), Return: math.MaxInt64})
	h.clients++
	h.onAnswer(id, h.update(id, majority, replicator.Fence{}, setRegister(id, value)), func(r Reply) {
		if r.Err == nil {
			h.ops[at].Return = int64(h.now)
		}
	})
}

// registerAtRandom plays the runs of TestMajorityRegistersAreLinearizable.
func registerAtRandom(seeds uint64) scenario {
	return func(t *testing.T) string {
		for seed := range seeds {
			if h := playRegisters(t, seed); h.verdict() != "" {
				return fmt.Sprintf("seed %d of the random runs", seed)
			}
		}
		return ""
	}
}

// registerAcrossViews: a majority of the next view has received nothing from a majority of
// this one.
func registerAcrossViews(t *testing.T) string {
	h := registers(t, 3)
	h.only(1, 2)
	h.writeAt(1)
	h.run(3 * time.Second)
	h.start(4)
	h.start(5)
	h.only(3, 4, 5)
	h.setView(h.next(add(gossip.Up, 4, 5)))
	h.run(time.Second)
	h.readAt(3)
	h.run(3 * time.Second)
	return h.verdict()
}

// registerInAMinority: two of five, told that the others cannot be reached.
func registerInAMinority(t *testing.T) string {
	h := registers(t, 5)
	h.only(3, 4, 5)
	h.writeAt(3)
	h.run(3 * time.Second)
	h.only(1, 2)
	for _, id := range ids(1, 2) {
		for _, lost := range ids(3, 4, 5) {
			h.step(id, PeerLost{ID: lost})
		}
	}
	h.readAt(1)
	h.run(3 * time.Second)
	return h.verdict()
}

func replacedWriter(t *testing.T) string {
	w := newWorld(t, 1, 3, nil)
	w.reply(1, w.read(1, majority, replicator.Fence{Group: "g", Term: 7}, "k"))
	w.run(time.Second)
	if r := w.reply(3, w.update(3, majority, replicator.Fence{Group: "g", Term: 5}, addTo(3, "k", "e"))); r.Err == nil {
		return "a replaced writer completed a write"
	}
	return ""
}

func ackOfALaterView(t *testing.T) string {
	w := newWorld(t, 1, 3, nil)
	w.start(4)
	w.start(5)
	v := w.next(add(gossip.Up, 4, 5))
	for _, id := range ids(2, 3, 4, 5) {
		w.step(id, ViewChanged{View: v})
	}
	w.run(time.Second)
	w.cut = func(a, b gossip.NodeID) bool { return a > 2 || b > 2 }
	rid := w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))
	w.run(20 * time.Millisecond)
	if _, ok := w.nodes[1].replies[rid]; ok {
		return "counted over a view that has passed"
	}
	return ""
}

func lostNack(t *testing.T) string {
	w := newWorld(t, 1, 3, nil)
	w.reply(3, w.read(3, replicator.To(1), replicator.Fence{Group: "g", Term: 9}, "k"))
	// Only node 3 has the higher term; node 2 receives nothing.
	w.cut = func(a, b gossip.NodeID) bool { return a == 2 || b == 2 }
	lost := 0
	w.dropKind = func(m Message) bool {
		a, ok := m.(*Ack)
		if ok && len(a.Refused) > 0 && lost < 3 {
			lost++
			return true
		}
		return false
	}
	rid := w.update(1, majority, replicator.Fence{Group: "g", Term: 1}, addTo(1, "k", "e"))
	w.run(20 * time.Millisecond)
	w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "k", "other"))
	if r := w.reply(1, rid); lost == 0 || !errors.Is(r.Err, replicator.ErrFenced) {
		return fmt.Sprintf("%d answers lost; a refused write ended with %v", lost, r.Err)
	}
	return ""
}

func partWithoutEffect(t *testing.T) string {
	w := newWorld(t, 1, 3, func(c *Config) { c.NoStream, c.NoGossip = true, true })
	w.cut = func(a, b gossip.NodeID) bool { return true }
	w.update(1, replicator.Local, replicator.Fence{}, setIn(1, "m", "k", "v", 7, 1))
	w.cut = nil
	w.reply(1, w.update(1, majority, replicator.Fence{}, setIn(1, "m", "k", "v", 7, 1), addTo(1, "s", "e")))
	w.crash(1)
	if r := w.reply(2, w.read(2, majority, replicator.Fence{}, "m")); r.Values[0] == nil {
		return "confirmed and lost"
	}
	return ""
}

// newcomer returns a core that has just come into a view with three voters.
func newcomer() (*Core, *gossip.View) {
	c := New(Config{Self: 4})
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + 6}
	for id, status := range []gossip.Status{gossip.Up, gossip.Up, gossip.Up, gossip.Joining} {
		v.Members = append(v.Members, member(gossip.NodeID(id+1), status))
	}
	c.Step(1, ViewChanged{View: v}, &Effects{})
	return c, v
}

func newcomerOfThree(_ *testing.T) string {
	c, v := newcomer()
	for id := gossip.NodeID(1); id <= 2; id++ {
		c.Step(1, Received{From: id, Msg: &Status{Epoch: v.Epoch, Root: c.Digest()}}, &Effects{})
	}
	if c.members.caughtUp == v.Epoch {
		return "caught up with two of three voters"
	}
	return ""
}

func settledNewcomer(_ *testing.T) string {
	c, v := newcomer()
	for id := gossip.NodeID(1); id <= 3; id++ {
		c.Step(1, Received{From: id, Msg: &Status{Epoch: v.Epoch, CaughtUp: v.Epoch, Root: 99, Keys: 7}}, &Effects{})
	}
	if c.members.caughtUp == v.Epoch {
		return "caught up, and empty"
	}
	return ""
}

func helpersOfAJoiner(t *testing.T) string {
	for seed := range uint64(30) {
		if k := falseClaim(t, seed); k != "" {
			return fmt.Sprintf("seed %d: %s is claimed and not there", seed, k)
		}
	}
	return ""
}

// refusedAndClaimed: a value that cannot be decoded is not one that is held.
func refusedAndClaimed(_ *testing.T) string {
	c, v := newcomer()
	tell := func(m Message) Message {
		var out Effects
		c.Step(1, Received{From: 1, Msg: m}, &out)
		if len(out.Send) == 0 {
			return nil
		}
		return out.Send[0].Msg
	}
	ask := tell(&Status{Epoch: v.Epoch, CaughtUp: v.Epoch, Root: 99, Keys: 1}).(*Compare)
	fetch := tell(&Differ{Session: ask.Session, Ask: ask.Ask, Epoch: v.Epoch, Next: bucketCount, Keys: []string{"k"}, Prints: []uint64{1}}).(*Fetch)
	tell(&Values{Session: ask.Session, Ask: fetch.Ask, Answered: 1, Items: []Item{{Key: "k", Kind: crdt.KindORSet, Bytes: []byte("nonsense")}}})
	if c.members.caughtUp == v.Epoch {
		return "caught up with one whose value was refused"
	}
	return ""
}

// answerBeforeTheRest: of voters 1, 3 and 4, a read of 4's was answered by 1 before 1
// had what 3 and a member that is gone had confirmed in the view before. Then 1 and
// 3 catch up, and the kept set is dropped: the old answer must not count by itself.
func answerBeforeTheRest(t *testing.T) string {
	w := newWorld(t, 1, 3, nil)
	w.start(4)
	w.setView(w.next(add(gossip.Joining, 4)))
	w.run(2 * time.Second)
	after := w.next(add(gossip.Up, 4))
	remove(2)(after)
	side := func(id gossip.NodeID) bool { return id == 2 || id == 3 }
	w.cut = func(a, b gossip.NodeID) bool { return side(a) != side(b) }
	w.view = after
	w.step(1, ViewChanged{View: after})
	w.step(4, ViewChanged{View: after})
	w.run(10 * time.Millisecond)
	if r := w.reply(3, w.update(3, majority, replicator.Fence{}, addTo(3, "k", "e"))); r.Err != nil {
		return "the write of the former view failed: " + r.Err.Error()
	}
	rid := w.read(4, majority, replicator.Fence{}, "k")
	w.run(50 * time.Millisecond)
	if _, ok := w.nodes[4].replies[rid]; ok {
		return "read without the kept set"
	}
	// 4 receives that the others have caught up, and nothing else of theirs for a second.
	var from, to gossip.NodeID
	w.cut = nil
	w.posted = func(a, b gossip.NodeID, _ Message) { from, to = a, b }
	w.dropKind = func(m Message) bool {
		_, status := m.(*Status)
		return !status && (from == 4 || to == 4)
	}
	w.step(3, ViewChanged{View: after})
	w.run(time.Second)
	w.dropKind = nil
	if r := w.reply(4, rid); r.Err == nil && (r.Values[0] == nil || !r.Values[0].(*crdt.ORSet[string]).Contains("e")) {
		return "a majority read misses what a majority had confirmed"
	}
	return ""
}
