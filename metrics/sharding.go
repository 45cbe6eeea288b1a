package metrics

import "github.com/peerage-go/peerage/sharding"

// shardingSeries returns the series of the entity types on this node.
func shardingSeries() []series {
	return []series{
		gaugePerType("coordinator_active", "1 while this node is the coordinator of the type.",
			func(t *sharding.Stats) float64 { return boolean(t.Coordinating) }),
		gauge("coordinator_shards", "Shards of the type on the way to a new home, on the coordinator's node: homeless ones had a home that failed, moving ones change it by a handoff.", func(s *scrape, emit emitter) {
			s.eachType(func(t *sharding.Stats) bool { return t.Coordinating }, func(t *sharding.Stats) {
				emit(float64(t.Homeless), t.Type, "homeless")
				emit(float64(t.Moving), t.Type, "moving")
			})
		}, "type", "state"),
		gaugePerType("region_shards", "Shards that this node hosts.",
			func(t *sharding.Stats) float64 { return float64(t.Shards) }),
		gaugePerType("region_entities", "Live entities on this node.",
			func(t *sharding.Stats) float64 { return float64(t.Entities) }),
		counter("region_messages_total", "Messages sent from this node, by route.", func(s *scrape, emit emitter) {
			s.eachType(anyType, func(t *sharding.Stats) {
				emit(float64(t.SentLocal), t.Type, "local")
				emit(float64(t.SentRemote), t.Type, "remote")
				emit(float64(t.SentBuffered), t.Type, "buffered")
				emit(float64(t.Redirected), t.Type, "redirected")
			})
		}, "type", "route"),
		counterPerType("region_messages_received_total", "Messages received from other nodes.",
			func(t *sharding.Stats) float64 { return float64(t.Received) }),
		counter("region_messages_dropped_total", "Messages to entities that were dropped, by reason.", func(s *scrape, emit emitter) {
			s.eachType(anyType, func(t *sharding.Stats) {
				for reason := range t.Dropped {
					emit(float64(t.Dropped[reason]), t.Type, sharding.Reason(reason).String())
				}
			})
		}, "type", "reason"),
		rare(counter("sharding_frames_dropped_total", "Sharding frames dropped before their type was determined, by reason.", func(s *scrape, emit emitter) {
			emit(float64(s.frames.Malformed), "decode")
			emit(float64(s.frames.UnknownType), "unknown_type")
			emit(float64(s.frames.AnswersLost), "answer_lost")
			emit(float64(s.frames.Overrun), "overrun")
		}, "reason")),
		gauge("sharding_flow_control_bytes", "Bytes parked for slow entities (parked), and granted to senders beyond their first windows (windows).", func(s *scrape, emit emitter) {
			emit(float64(s.frames.ParkedBytes), "parked")
			emit(float64(s.frames.WindowBytes), "windows")
		}, "use"),
		gaugePerType("region_buffered_messages", "Messages held while their shard has no home.",
			func(t *sharding.Stats) float64 { return float64(t.Buffered) }),
		gaugePerType("region_buffered_bytes", "Bytes of messages held while their shard has no home.",
			func(t *sharding.Stats) float64 { return float64(t.BufferedBytes) }),
		gaugePerType("region_held_up_senders", "Callers on this node that wait for room in the mailbox of an entity on any node.",
			func(t *sharding.Stats) float64 { return float64(t.HeldUp) }),
		gaugePerType("region_parked_messages", "Messages of other nodes that wait on this node for room in an entity's mailbox.",
			func(t *sharding.Stats) float64 { return float64(t.Parked) }),
		gaugePerType("region_stopped_entities", "Entities on other nodes whose mailbox is full: callers on this node wait for each separately.",
			func(t *sharding.Stats) float64 { return float64(t.Stopped) }),
		counterPerType("region_windows_exhausted_total", "Times when this node had used up the window that a shard's home had granted.",
			func(t *sharding.Stats) float64 { return float64(t.Blocked) }),
		counter("region_handoffs_total", "Shards that this node started and stopped by order of the coordinator.", func(s *scrape, emit emitter) {
			s.eachType(anyType, func(t *sharding.Stats) {
				emit(float64(t.HandoffsIn), t.Type, "in", "ok")
				emit(float64(t.HandoffsOut-min(t.Forced, t.HandoffsOut)), t.Type, "out", "ok")
				emit(float64(t.Forced), t.Type, "out", "forced")
			})
		}, "type", "direction", "result"),
	}
}

// entitySeries returns the series of this node's instances and their handlers.
func entitySeries() []series {
	return []series{
		counterPerType("fence_rejections_total", "Messages and orders rejected because their fencing token was not the shard's.",
			func(t *sharding.Stats) float64 { return float64(t.Stale) }),
		counterPerType("terms_refused_total", "Messages, records and fences received with a term that no view can have had; must stay 0.",
			func(t *sharding.Stats) float64 { return float64(t.TermsRefused) }),
		counterPerType("duplicate_activations_total", "Shards found active on two nodes, counted on the node that found it; must stay 0.",
			func(t *sharding.Stats) float64 { return float64(t.Duplicates) }),
		counterPerType("entity_handled_total", "Ended handler calls.",
			func(t *sharding.Stats) float64 { return float64(t.Handled) }),
		counter("entity_deactivations_total", "Ended entity instances, by reason.", func(s *scrape, emit emitter) {
			s.eachType(anyType, func(t *sharding.Stats) {
				emit(float64(t.Passivated), t.Type, "idle")
				emit(float64(t.Abandoned), t.Type, "fenced")
				emit(float64(t.CutLoose), t.Type, "cut_loose")
			})
		}, "type", "reason"),
		counterPerType("entity_panics_total", "Handler panics that were recovered.",
			func(t *sharding.Stats) float64 { return float64(t.Dropped[sharding.DropPanicked]) }),
		gaugePerType("entity_mailbox_messages", "Messages that wait in mailboxes of this node's entities.",
			func(t *sharding.Stats) float64 { return float64(t.MailboxMessages) }),
		gaugePerType("entity_mailbox_most_messages", "Messages that wait for the one entity of this node with the fullest mailbox.",
			func(t *sharding.Stats) float64 { return float64(t.MailboxMost) }),
		gaugePerType("entity_oldest_handler_seconds", "Age of the longest-running call of an entity's code.",
			func(t *sharding.Stats) float64 { return t.OldestHandler.Seconds() }),
		counterPerType("entity_blocked_handlers_total", "Calls of an entity's code that took longer than the type's BlockedAfter.",
			func(t *sharding.Stats) float64 { return float64(t.BlockedHandlers) }),
		counterPerType("entity_message_shapes_differ_total", "Nodes that registered the type with another message shape than the coordinator's node, counted there.",
			func(t *sharding.Stats) float64 { return float64(t.MessageShapes) }),
		counter("client_asks_cyclic_total", "Asks that reached an entity which waits for them: refused, or mutual ones, which mostly end at their deadlines.", func(s *scrape, emit emitter) {
			s.eachType(anyType, func(t *sharding.Stats) {
				emit(float64(t.SelfAsks), t.Type, "refused")
				emit(float64(t.MutualAsks), t.Type, "mutual")
			})
		}, "type", "result"),
		gaugePerType("client_asks", "Asks in flight: sent and not yet answered.",
			func(t *sharding.Stats) float64 { return float64(t.Asks) }),
	}
}

// stateSeries returns the series of replicated entity states, for types that have them.
func stateSeries() []series {
	g := func(name, help string, of func(*sharding.Stats) float64) series {
		return gauge(name, help, perTypeIf(keepsState, of), "type")
	}
	c := func(name, help string, of func(*sharding.Stats) float64) series {
		return counter(name, help, perTypeIf(keepsState, of), "type")
	}
	return []series{
		g("region_standby_shards", "Shards of other nodes whose states this node keeps as a standby.",
			func(t *sharding.Stats) float64 { return float64(t.StandbyShards) }),
		g("entity_state_bytes", "Bytes of replicated entity states on this node, as home and as standby.",
			func(t *sharding.Stats) float64 { return float64(t.StateBytes) }),
		counter("entity_state_recoveries_total", "Started instances of types with state, by the source of their state.", func(s *scrape, emit emitter) {
			s.eachType(keepsState, func(t *sharding.Stats) {
				emit(float64(t.StatesRecovered), t.Type, "standby")
				emit(float64(t.StatesIn), t.Type, "handoff")
				emit(float64(t.StatesCold), t.Type, "cold")
			})
		}, "type", "source"),
		c("entity_state_loss_total", "Shards started after so many standbys were lost that acknowledged states may be missing.",
			func(t *sharding.Stats) float64 { return float64(t.StateLosses) }),
		c("entity_state_unkept_total", "Replies that failed because too few nodes acknowledged the state in time.",
			func(t *sharding.Stats) float64 { return float64(t.NotKept) }),
		c("entity_state_reused_total", "Replicated states whose slice the entity modified after Snapshot had returned it.",
			func(t *sharding.Stats) float64 { return float64(t.StatesReused) }),
		counter("region_state_transfer_bytes_total", "Bytes of frames that carry replicated entity states.", func(s *scrape, emit emitter) {
			s.eachType(keepsState, func(t *sharding.Stats) {
				emit(float64(t.StateBytesIn), t.Type, "in")
				emit(float64(t.StateBytesOut), t.Type, "out")
			})
		}, "type", "direction"),
	}
}

func keepsState(t *sharding.Stats) bool { return t.KeepsState }

func remembers(t *sharding.Stats) bool { return t.Remembers }

func anyType(*sharding.Stats) bool { return true }

// counterPerType returns a counter with one number of every type.
func counterPerType(name, help string, of func(*sharding.Stats) float64) series {
	return counter(name, help, perType(of), "type")
}

// gaugePerType returns a gauge with one number of every type.
func gaugePerType(name, help string, of func(*sharding.Stats) float64) series {
	return gauge(name, help, perType(of), "type")
}

// perType emits one number of every type.
func perType(of func(*sharding.Stats) float64) func(*scrape, emitter) { return perTypeIf(anyType, of) }

// perTypeIf emits one number of every type for which when returns true.
func perTypeIf(when func(*sharding.Stats) bool, of func(*sharding.Stats) float64) func(*scrape, emitter) {
	return func(s *scrape, emit emitter) {
		s.eachType(when, func(t *sharding.Stats) { emit(of(t), t.Type) })
	}
}

// eachType calls f for every type for which when returns true.
func (s *scrape) eachType(when func(*sharding.Stats) bool, f func(*sharding.Stats)) {
	for i := range s.types {
		if t := &s.types[i]; when(t) {
			f(t)
		}
	}
}
