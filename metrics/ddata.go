package metrics

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/replicator"
)

// ddataSeries are about the replicators, one a role.
func ddataSeries() []series {
	g := func(name, help string, of func(*replicator.Stats) float64) series {
		return gauge(name, help, perRole(of), "role")
	}
	c := func(name, help string, of func(*replicator.Stats) float64) series {
		return counter(name, help, perRole(of), "role")
	}
	return []series{
		g("ddata_keys", "Keys held here.", func(s *replicator.Stats) float64 { return float64(s.Keys) }),
		g("ddata_state_bytes", "Encoded size of all values held here.", func(s *replicator.Stats) float64 { return float64(s.Bytes) }),
		g("ddata_pending", "Reads and writes that wait for other replicas.", func(s *replicator.Stats) float64 { return float64(s.Pending) }),
		g("ddata_replication_lag", "Own changes that the slowest peer has not confirmed.", func(s *replicator.Stats) float64 { return float64(s.LagMax) }),
		g("ddata_log_bytes", "Bytes of own changes that some peer has not confirmed.", func(s *replicator.Stats) float64 { return float64(s.LogBytes) }),
		counter("ddata_deltas_total", "Deltas sent and received, repetitions included.", func(s *scrape, emit emitter) {
			s.eachRole(func(role string, r *replicator.Stats) {
				emit(float64(r.DeltasSent), role, "sent")
				emit(float64(r.DeltasReceived), role, "received")
			})
		}, "role", "direction"),
		c("ddata_delta_gaps_total", "Deltas that came with a hole before them; the hole was asked for.", func(s *replicator.Stats) float64 { return float64(s.Gaps) }),
		counter("ddata_full_syncs_total", "Whole values sent and received, by anti-entropy and repair.", func(s *scrape, emit emitter) {
			s.eachRole(func(role string, r *replicator.Stats) {
				emit(float64(r.ValuesSent), role, "sent")
				emit(float64(r.ValuesReceived), role, "received")
			})
		}, "role", "direction"),
		c("ddata_set_aside_keys_total", "Durable keys set aside since their file was away for too long.", func(s *replicator.Stats) float64 { return float64(s.SetAside) }),
		c("ddata_late_horizons_total", "Files that came after one that was away for longer: what they had deleted may be back.", func(s *replicator.Stats) float64 { return float64(s.LateHorizons) }),
		g("ddata_tombstones", "Deleted keys that are not yet forgotten.", func(s *replicator.Stats) float64 { return float64(s.Tombstones) }),
		g("ddata_retained_deletions", "Deletions under durable keys, of keys and of map entries, that are remembered for files that may come back.", func(s *replicator.Stats) float64 { return float64(s.Retained) }),
		c("ddata_durable_errors_total", "Writes of the file of durable keys that failed, and files not taken in whole.", func(s *replicator.Stats) float64 { return float64(s.DurableErrors) }),
		g("ddata_durable_failing", "1 while durable keys cannot be stored here: writes of them fail.", func(s *replicator.Stats) float64 {
			if s.DurableFailing {
				return 1
			}
			return 0
		}),
		c("ddata_repairs_total", "Values sent to stale replicas by reads.", func(s *replicator.Stats) float64 { return float64(s.Repairs) }),
		c("ddata_fenced_total", "Requests of replaced writers that were refused here.", func(s *replicator.Stats) float64 { return float64(s.FencedHere) }),
		c("ddata_false_claims_total", "Items of peers that claimed changes which this node or another member has not made.", func(s *replicator.Stats) float64 { return float64(s.FalseClaims) }),
		c("ddata_terms_refused_total", "Fences of members with a term that no view can have had; must stay 0.", func(s *replicator.Stats) float64 { return float64(s.FarTerms) }),
		c("ddata_limit_errors_total", "Writes that a limit refused.", func(s *replicator.Stats) float64 { return float64(s.LimitErrors) }),
		c("ddata_stamps_ahead_total", "Changes that their writers sent with stamps more than a minute ahead of the clocks: not applied here.", func(s *replicator.Stats) float64 { return float64(s.Ahead) }),
		c("ddata_restamped_total", "Entries of this node, ahead of the first clock of another member that it heard, which were stamped anew.", func(s *replicator.Stats) float64 { return float64(s.Restamped) }),
		c("ddata_quorum_errors_total", "Requests whose level was not fulfilled in time.", func(s *replicator.Stats) float64 { return float64(s.QuorumErrors) }),
		c("ddata_lease_errors_total", "Of those, requests of this node while it held no lease.", func(s *replicator.Stats) float64 { return float64(s.LeaseErrors) }),
		counter("ddata_bytes_total", "Bytes of the replicators' frames.", func(s *scrape, emit emitter) {
			s.eachRole(func(role string, r *replicator.Stats) {
				emit(float64(r.BytesSent), role, "sent")
				emit(float64(r.BytesReceived), role, "received")
			})
		}, "role", "direction"),
		counter("ddata_frames_dropped_total", "Frames that were dropped, by reason.", func(s *scrape, emit emitter) {
			s.eachRole(func(role string, r *replicator.Stats) {
				emit(float64(r.InboxDropped), role, "queue_full")
				emit(float64(r.FramesBad), role, "decode")
				emit(float64(r.SendRefused), role, "send_refused")
				emit(float64(r.ForeignFrames), role, "foreign")
			})
		}, "role", "reason"),
	}
}

func perRole(of func(*replicator.Stats) float64) func(*scrape, emitter) {
	return func(s *scrape, emit emitter) {
		s.eachRole(func(role string, r *replicator.Stats) { emit(of(r), role) })
	}
}

// eachRole goes over the replicators in order of their roles; the one of all
// members is labelled "all".
func (s *scrape) eachRole(f func(role string, r *replicator.Stats)) {
	for _, role := range slices.Sorted(maps.Keys(s.replicators)) {
		r := s.replicators[role]
		label := role
		if label == "" {
			label = "all"
		}
		f(label, &r)
	}
}
