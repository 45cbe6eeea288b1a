package metrics

import "github.com/peerage-go/peerage/sharding"

// shardingSeries are about the entity types on this node.
func shardingSeries() []series {
	return []series{
		gauge("coordinator_active", "1 while this node coordinates the type.",
			perType(func(t *sharding.Stats) float64 { return boolean(t.Coordinating) }), "type"),
		gauge("region_shards", "Shards hosted here, and those whose states are kept here for another home.", func(s *scrape, emit emitter) {
			for i := range s.types {
				emit(float64(s.types[i].Shards), s.types[i].Type, "owner")
				emit(float64(s.types[i].StandbyShards), s.types[i].Type, "standby")
			}
		}, "type", "role"),
		gauge("region_entities", "Live entities here.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Entities) }), "type"),
		counter("region_messages_total", "Messages sent from this node, by the way they took.", func(s *scrape, emit emitter) {
			for i := range s.types {
				t := &s.types[i]
				for route := range t.Sent {
					emit(float64(t.Sent[route]), t.Type, sharding.Route(route).String())
				}
				emit(float64(t.Redirected), t.Type, "redirected")
			}
		}, "type", "route"),
		counter("region_messages_received_total", "Messages that came from other nodes.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Received) }), "type"),
		counter("region_messages_dropped_total", "Messages that were dropped, by reason.", func(s *scrape, emit emitter) {
			for i := range s.types {
				t := &s.types[i]
				for reason := range t.Dropped {
					emit(float64(t.Dropped[reason]), t.Type, sharding.Reason(reason).String())
				}
			}
		}, "type", "reason"),
		counter("sharding_frames_dropped_total", "Frames between the nodes' sharding that were dropped, of no type in particular, by reason.", func(s *scrape, emit emitter) {
			emit(float64(s.frames.Malformed), "decode")
			emit(float64(s.frames.UnknownType), "unknown_type")
			emit(float64(s.frames.AnswersLost), "answer_lost")
			emit(float64(s.frames.Overrun), "overrun")
		}, "reason"),
		gauge("sharding_flow_control_bytes", "Bytes that this node holds for slow entities (parked), and has granted to senders beyond their first windows (windows).", func(s *scrape, emit emitter) {
			emit(float64(s.frames.ParkedBytes), "parked")
			emit(float64(s.frames.WindowBytes), "windows")
		}, "use"),
		gauge("region_buffered_messages", "Messages held while their shard has no home.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Buffered) }), "type"),
		gauge("region_buffered_bytes", "The same in bytes.",
			perType(func(t *sharding.Stats) float64 { return float64(t.BufferedBytes) }), "type"),
		gauge("region_held_up_senders", "Callers on this node that wait for room in the mailbox of an entity, here or at another node.",
			perType(func(t *sharding.Stats) float64 { return float64(t.HeldUp) }), "type"),
		gauge("region_parked_messages", "Messages of other nodes that wait here for room in the mailbox of an entity.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Parked) }), "type"),
		gauge("region_stopped_entities", "Entities at other nodes that do not keep up: callers on this node wait for each of them apart.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Stopped) }), "type"),
		counter("region_windows_exhausted_total", "Times that this node had sent a shard's home as much as the home had granted.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Blocked) }), "type"),
		counter("region_handoffs_total", "Shards started and stopped here by order of the coordinator.", func(s *scrape, emit emitter) {
			for i := range s.types {
				t := &s.types[i]
				emit(float64(t.HandoffsIn), t.Type, "in", "ok")
				emit(float64(t.HandoffsOut-min(t.Forced, t.HandoffsOut)), t.Type, "out", "ok")
				emit(float64(t.Forced), t.Type, "out", "forced")
			}
		}, "type", "direction", "result"),
	}
}

// entitySeries are about the instances on this node and what their handlers did.
func entitySeries() []series {
	return []series{
		counter("fence_rejections_total", "Messages and orders with a token that is not the shard's.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Stale) }), "type"),
		counter("terms_refused_total", "Messages, records and fences of members with a term that no view can have had; must stay 0.",
			perType(func(t *sharding.Stats) float64 { return float64(t.TermsRefused) }), "type"),
		counter("duplicate_activations_total", "Shards that were found to live twice, on the node that found it; must stay 0.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Duplicates) }), "type"),
		counter("entity_handled_total", "Handler calls that ended.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Handled) }), "type"),
		counter("entity_deactivations_total", "Instances that ended, by reason.", func(s *scrape, emit emitter) {
			for i := range s.types {
				emit(float64(s.types[i].Passivated), s.types[i].Type, "idle")
				emit(float64(s.types[i].Abandoned), s.types[i].Type, "fenced")
				emit(float64(s.types[i].CutLoose), s.types[i].Type, "cut_loose")
			}
		}, "type", "reason"),
		counter("entity_panics_total", "Handler panics that were contained.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Dropped[sharding.DropPanicked]) }), "type"),
		gauge("entity_oldest_handler_seconds", "For how long the call of an entity's code that runs longest has run.",
			perType(func(t *sharding.Stats) float64 { return t.OldestHandler.Seconds() }), "type"),
		counter("entity_blocked_handlers_total", "Calls of entities' code that took longer than the type's BlockedAfter.",
			perType(func(t *sharding.Stats) float64 { return float64(t.BlockedHandlers) }), "type"),
		counter("entity_state_reused_total", "Replicated states whose slice the entity changed after its Snapshot had returned it.",
			perType(func(t *sharding.Stats) float64 { return float64(t.StatesReused) }), "type"),
		counter("entity_message_shapes_differ_total", "Nodes that registered a type with messages of another shape than the coordinator's node has, which counts them.",
			perType(func(t *sharding.Stats) float64 { return float64(t.MessageShapes) }), "type"),
		counter("client_asks_cyclic_total", "Asks that came back to an entity which waits for them: refused, or mutual, which mostly end at their deadlines.", func(s *scrape, emit emitter) {
			for i := range s.types {
				emit(float64(s.types[i].SelfAsks), s.types[i].Type, "refused")
				emit(float64(s.types[i].MutualAsks), s.types[i].Type, "mutual")
			}
		}, "type", "result"),
		gauge("client_asks", "Asks that wait for their reply.",
			perType(func(t *sharding.Stats) float64 { return float64(t.Asks) }), "type"),
	}
}

// stateSeries are about the replicated states of entities.
func stateSeries() []series {
	return []series{
		gauge("entity_state_bytes", "Bytes of replicated entity states held here, as home and as standby.",
			perType(func(t *sharding.Stats) float64 { return float64(t.StateBytes) }), "type"),
		counter("entity_state_recoveries_total", "Instances of types with state that began, by where their state came from.", func(s *scrape, emit emitter) {
			for i := range s.types {
				emit(float64(s.types[i].StatesRecovered), s.types[i].Type, "standby")
				emit(float64(s.types[i].StatesIn), s.types[i].Type, "handoff")
				emit(float64(s.types[i].StatesCold), s.types[i].Type, "cold")
			}
		}, "type", "source"),
		counter("entity_state_loss_total", "Shards started when so many standbys were lost that acknowledged states may be missing.",
			perType(func(t *sharding.Stats) float64 { return float64(t.StateLosses) }), "type"),
		counter("entity_state_unkept_total", "Replies that failed since too few nodes had acknowledged the state in time.",
			perType(func(t *sharding.Stats) float64 { return float64(t.NotKept) }), "type"),
		counter("region_state_transfer_bytes_total", "Bytes of frames that replicate entity states.", func(s *scrape, emit emitter) {
			for i := range s.types {
				emit(float64(s.types[i].StateBytesIn), s.types[i].Type, "in")
				emit(float64(s.types[i].StateBytesOut), s.types[i].Type, "out")
			}
		}, "type", "direction"),
	}
}

// perType reads one number of every type.
func perType(of func(*sharding.Stats) float64) func(*scrape, emitter) {
	return func(s *scrape, emit emitter) {
		for i := range s.types {
			emit(of(&s.types[i]), s.types[i].Type)
		}
	}
}
