package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"unicode"
)

// maxSameName is how many unexported functions and methods may share a one-word name.
const maxSameName = 2

// functionNames returns the figures of the names that the module declares.
func functionNames(m *module) []*measure {
	words := &measure{name: "one-word-names", title: "functions of one unexported word", limit: maxSameName, goal: "<= 2 a word"}
	retired := &measure{name: "retired-names", title: "declared names that are retired", goal: "0"}
	where := map[string][]string{}
	old := map[string][]string{}
	functions, single := 0, 0
	for _, p := range m.packages {
		for _, f := range p.files {
			for id, isFunc := range declared(f.ast) {
				at := fmt.Sprintf("%s:%d", f.path, m.fset.Position(id.Pos()).Line)
				if use := retiredNames[id.Name]; use != "" {
					old[id.Name+" -> "+use] = append(old[id.Name+" -> "+use], at)
				}
				if !isFunc || id.IsExported() || id.Name == "_" {
					continue
				}
				functions++
				if oneWord(id.Name) {
					single++
					where[id.Name] = append(where[id.Name], at)
				}
			}
		}
	}
	delete(where, "main")
	for name, at := range where {
		words.items = append(words.items, item{subject: name, value: len(at), where: at})
	}
	total := 0
	for name, at := range old {
		total += len(at)
		retired.items = append(retired.items, item{subject: name, value: len(at), where: at})
	}
	words.total = fmt.Sprintf("%s (%d %%)", highest(words), single*100/max(functions, 1))
	retired.total = fmt.Sprint(total)
	return []*measure{words, retired}
}

// declared returns the names that a file declares at its top, and whether each is a
// function or method.
func declared(f *ast.File) map[*ast.Ident]bool {
	ids := map[*ast.Ident]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			ids[d.Name] = true
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					ids[s.Name] = false
				case *ast.ValueSpec:
					for _, id := range s.Names {
						ids[id] = false
					}
				}
			}
		}
	}
	return ids
}

// oneWord reports whether name is one lower-case word.
func oneWord(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLower(r) })
}

// retiredNames maps names that may no longer be declared to what replaces them.
var retiredNames = map[string]string{
	"line": "producer", "lines": "producers", "path": "endpoint", "inner": "endpoint", "dataPath": "endpoint",
	"bell": "signal", "shell": "typeDriver", "own": "typeDriver", "call0": "callFunc",
	"inflow": "requestBatch", "intake": "requestBatch", "Inlet": "batchInserter",
	"workerKeeper": "daemonController", "keeping": "daemonSession", "govern": "adoptPlan",
	"stateKeeper": "stateReplicator", "staffed": "daemonStrategy", "advised": "recoverStrategy",
	"memories": "rememberedSet", "fell": "onCrash", "fallen": "crashed", "news": "needsRead",
	"residents": "alwaysOn", "lookAfterResidents": "ensureRunning", "dismiss": "stopAll", "forsake": "abandonStuck",
	"farewells": "flushBarrier", "outrun": "superseded",
	"sure": "reliable", "Sure": "Reliable", "flagSure": "flagReliable", "returned": "onRefusedReliable",
	"hands": "worker", "box": "mailbox", "loose": "detached", "extra": "coldState",
	"about": "bindContext", "over": "releaseContext", "tellLeft": "publishDepth", "wakeEarly": "wakeSenders",
	"unfit": "settingsRejected", "nobody": "noHostReported", "pace": "retryBase", "Foreign": "TypeNotRegistered", "Reluctant": "AvoidCoordinating",
	"stray": "staleClaim", "owing": "acksPending", "closers": "awaitingClose", "turned": "retargetSeq", "unhome": "release",
	"office": "leadership", "cand": "candidacy",
	"giveWay": "candidateUntil", "standAfter": "campaignAfter", "vacantAt": "leaderlessSince", "backedUntil": "quorumUntil",
	"stirred": "reviewNeeded", "starved": "leaseWithheldSince", "contest": "lineageConflict", "challenge": "confirmPeer",
	"yields": "loses", "stands": "wins", "stranger": "otherCluster",
	"faded": "suspectedByGossip", "mute": "unresponsive", "vouched": "verified", "accuse": "warnOnce",
	"judged": "onVote", "sayWaiting": "logWaiting",
	"keyEnds": "keyDeletions", "ripe": "expired", "ceiling": "maxForgottenStamp",
	"levelWith": "checkPruneFloor", "virgin": "empty", "shunned": "avoidPeer", "lane": "source", "pose": "sendCompare", "shower": "valueRenderer",
	"tiny": "wTinyLFU", "tidy": "removeEmptyBuckets",
	"upper": "shardingModel", "upperworld": "shardingInvariants", "strikes": "aimedFaults", "tamper": "corruptor", "swarm": "seedConfig", "marks": "coverage",
}
