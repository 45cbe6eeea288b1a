package metrics

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/figures"
)

// ddataSeries returns per-replicator series, labelled by role.
func ddataSeries() []series {
	return slices.Concat(replicaSeries(), durableSeries())
}

// durableSeries returns the series of replicators that have a file of durable keys.
func durableSeries() []series {
	g := func(name, help string, of func(*figures.Replicator) float64) series {
		return gaugePerRole(isDurable, name, help, of)
	}
	c := func(name, help string, of func(*figures.Replicator) float64) series {
		return counterPerRole(isDurable, name, help, of)
	}
	return []series{
		c("ddata_set_aside_keys_total", "Durable keys set aside because their file was absent for too long.", func(s *figures.Replicator) float64 { return float64(s.SetAside) }),
		c("ddata_late_files_total", "Durable files loaded after one that was absent for longer: their deleted keys may reappear.", func(s *figures.Replicator) float64 { return float64(s.LateFiles) }),
		g("ddata_retained_deletions", "Deletions of durable keys and of map entries under them, retained for durable files that may return.", func(s *figures.Replicator) float64 { return float64(s.Retained) }),
		c("ddata_durable_errors_total", "Failed writes of the file of durable keys, and files that could not be loaded in full.", func(s *figures.Replicator) float64 { return float64(s.DurableErrors) }),
		g("ddata_durable_failing", "1 while this node cannot store durable keys: writes of them fail.", func(s *figures.Replicator) float64 { return boolean(s.DurableFailing) }),
		c("ddata_durable_writes_total", "Syncs of the file of durable keys.", func(s *figures.Replicator) float64 { return float64(s.DurableWrites) }),
	}
}

// replicaSeries returns the series of replicators that are in use. Those that alerts read are 0
// before their first event.
func replicaSeries() []series {
	g := func(name, help string, of func(*figures.Replicator) float64) series {
		return gaugePerRole(inUse, name, help, of)
	}
	c := func(name, help string, of func(*figures.Replicator) float64) series {
		return counterPerRole(inUse, name, help, of)
	}
	r := func(name, help string, of func(*figures.Replicator) float64) series { return rare(c(name, help, of)) }
	return []series{
		g("ddata_keys", "Keys that this node holds.", func(s *figures.Replicator) float64 { return float64(s.Keys) }),
		g("ddata_state_bytes", "Encoded size of all values that this node holds.", func(s *figures.Replicator) float64 { return float64(s.Bytes) }),
		g("ddata_pending", "Reads and writes that wait for replies of other replicas.", func(s *figures.Replicator) float64 { return float64(s.Pending) }),
		g("ddata_replication_lag", "Changes of this node that the slowest peer has not acknowledged.", func(s *figures.Replicator) float64 { return float64(s.LagMax) }),
		g("ddata_log_bytes", "Bytes of changes of this node that some peer has not acknowledged.", func(s *figures.Replicator) float64 { return float64(s.LogBytes) }),
		counter("ddata_deltas_total", "Deltas sent and received, retransmissions included.", func(s *scrape, emit emitter) {
			s.eachUsed(func(role string, r *figures.Replicator) {
				emit(float64(r.DeltasSent), role, "sent")
				emit(float64(r.DeltasReceived), role, "received")
			})
		}, "role", "direction"),
		r("ddata_deltas_resent_total", "Deltas retransmitted because a peer did not acknowledge them in time; part of ddata_deltas_total.", func(s *figures.Replicator) float64 { return float64(s.DeltasResent) }),
		r("ddata_delta_gaps_total", "Deltas received with a gap before them; the missing deltas were requested.", func(s *figures.Replicator) float64 { return float64(s.Gaps) }),
		counter("ddata_full_syncs_total", "Whole values sent and received, by anti-entropy and repair.", func(s *scrape, emit emitter) {
			s.eachUsed(func(role string, r *figures.Replicator) {
				emit(float64(r.ValuesSent), role, "sent")
				emit(float64(r.ValuesReceived), role, "received")
			})
		}, "role", "direction"),
		g("ddata_tombstones", "Deleted keys whose tombstone is not yet garbage-collected.", func(s *figures.Replicator) float64 { return float64(s.Tombstones) }),
		r("ddata_expired_total", "Keys that this node deleted because no write changed them for the time of their expiry.", func(s *figures.Replicator) float64 { return float64(s.Expired) }),
		r("ddata_pruned_total", "Tombstones and metadata of removed nodes that were garbage-collected here.", func(s *figures.Replicator) float64 { return float64(s.Pruned) }),
		c("ddata_floor_gaps_total", "Rounds of garbage collection that this replica missed; must stay 0.", func(s *figures.Replicator) float64 { return float64(s.FloorGaps) }),
		r("ddata_repairs_total", "Values that reads sent to stale replicas.", func(s *figures.Replicator) float64 { return float64(s.Repairs) }),
		r("ddata_fenced_total", "Requests of superseded writers that this node rejected.", func(s *figures.Replicator) float64 { return float64(s.FencedHere) }),
		r("ddata_false_claims_total", "Items received from peers that claim changes which this node or another member never made.", func(s *figures.Replicator) float64 { return float64(s.FalseClaims) }),
		counterPerRole(always, "ddata_terms_refused_total", "Fences received with a term that no view can have had; must stay 0.", func(s *figures.Replicator) float64 { return float64(s.FarTerms) }),
		r("ddata_refused_total", "Data of peers rejected because it is malformed, or exceeds this node's limits more than twice; replicas then differ.", func(s *figures.Replicator) float64 { return float64(s.Refused) }),
		r("ddata_limit_errors_total", "Writes rejected because they exceed a limit.", func(s *figures.Replicator) float64 { return float64(s.LimitErrors) }),
		counterPerRole(always, "ddata_stamps_ahead_total", "Changes rejected because their stamp was more than a minute ahead of this node's clock.", func(s *figures.Replicator) float64 { return float64(s.Ahead) }),
		r("ddata_eras_total", "Writes of this node that began an era of a key, because its entries had stamps ahead of all clocks.", func(s *figures.Replicator) float64 { return float64(s.Eras) }),
		r("ddata_restamped_total", "Entries of this node restamped because their stamps were too far ahead of another member's clock.", func(s *figures.Replicator) float64 { return float64(s.Restamped) }),
		c("ddata_quorum_errors_total", "Requests that did not reach their consistency level in time.", func(s *figures.Replicator) float64 { return float64(s.QuorumErrors) }),
		r("ddata_lease_errors_total", "Requests that failed because this node held no lease; part of ddata_quorum_errors_total.", func(s *figures.Replicator) float64 { return float64(s.LeaseErrors) }),
		counter("ddata_bytes_total", "Bytes of replicator frames sent and received.", func(s *scrape, emit emitter) {
			s.eachUsed(func(role string, r *figures.Replicator) {
				emit(float64(r.BytesSent), role, "sent")
				emit(float64(r.BytesReceived), role, "received")
			})
		}, "role", "direction"),
		rare(counter("ddata_frames_dropped_total", "Replicator frames that were dropped, by reason.", func(s *scrape, emit emitter) {
			s.eachRole(func(role string, r *figures.Replicator) {
				emit(float64(r.InboxDropped), role, "queue_full")
				emit(float64(r.FramesBad), role, "decode")
				emit(float64(r.SendRefused), role, "send_refused")
				emit(float64(r.ForeignFrames), role, "foreign")
			})
		}, "role", "reason")),
	}
}

func gaugePerRole(when func(*figures.Replicator) bool, name, help string, of func(*figures.Replicator) float64) series {
	return gauge(name, help, perRole(when, of), "role")
}

func counterPerRole(when func(*figures.Replicator) bool, name, help string, of func(*figures.Replicator) float64) series {
	return counter(name, help, perRole(when, of), "role")
}

func always(*figures.Replicator) bool { return true }

func isDurable(r *figures.Replicator) bool { return r.Durable }

// inUse reports whether the replicator holds data or has received any. The one of all members is
// there also if the application has none, and its series would all be 0.
func inUse(r *figures.Replicator) bool {
	return r.Keys > 0 || r.Tombstones > 0 || r.Updates+r.Reads+r.DeltasReceived+r.ValuesReceived+r.Refused+r.FalseClaims > 0
}

// perRole emits one number of each replicator for which when returns true.
func perRole(when func(*figures.Replicator) bool, of func(*figures.Replicator) float64) func(*scrape, emitter) {
	return func(s *scrape, emit emitter) {
		s.eachRole(func(role string, r *figures.Replicator) {
			if when(r) {
				emit(of(r), role)
			}
		})
	}
}

// eachRole calls f for each replicator, in the order of roles. The replicator of all
// members is labelled "all".
func (s *scrape) eachRole(f func(role string, r *figures.Replicator)) {
	for _, role := range slices.Sorted(maps.Keys(s.replicators)) {
		r := s.replicators[role]
		label := role
		if label == "" {
			label = "all"
		}
		f(label, &r)
	}
}

// eachUsed calls f for each replicator that is in use.
func (s *scrape) eachUsed(f func(role string, r *figures.Replicator)) {
	s.eachRole(func(role string, r *figures.Replicator) {
		if inUse(r) {
			f(role, r)
		}
	})
}
