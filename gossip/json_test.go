package gossip_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// A view in the JSON of GET /status is read back whole: also ids that a float cannot hold, and
// the verdict of a contest.
func TestAViewSurvivesJSON(t *testing.T) {
	v := of(2)
	v.Cluster, v.Origin, v.TokensFrom = 1<<63|1, 1<<62|3, 7
	v.Members[1].Roles, v.Members[1].AppVersion = []string{"web"}, "v2"
	v.Forks = []gossip.Fork{{From: v.Epoch, To: v.Epoch + 1, Kept: 1, By: 2}}
	v.Standing = gossip.Standing{Size: 2, Peak: 3, Birth: v.Epoch}
	v.Foreign = []gossip.Contest{{Cluster: 1<<63 | 5, Verdict: gossip.VerdictYields, Nodes: []gossip.Node{{ID: 1<<63 | 9, Name: "x", Addr: "x:1"}}}}
	v.Out = []gossip.Departure{{ID: 9, Cause: gossip.CauseDead, Evidence: "refused"}}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	back := new(gossip.View)
	if err := json.Unmarshal(text, back); err != nil || !reflect.DeepEqual(v, back) {
		t.Errorf("%s is read back as %+v: %v", text, back, err)
	}
	for _, part := range []string{`"members":[{"id":"0000000000000001","name":"n1"`, `"status":"up"`, `"app_version":"v2"`, `"verdict":"yields"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s lacks %s", text, part)
		}
	}
	if err := new(gossip.Verdict).UnmarshalText([]byte("undecided")); err == nil {
		t.Error("an unknown verdict is read")
	}
}

// TestALeaseInJSONAndInWords checks that the JSON of a lease has numbers, and the table words.
func TestALeaseInJSONAndInWords(t *testing.T) {
	for want, s := range map[string]gossip.LeaseStatus{
		`{"valid":true,"leader":true,"generation":3,"left_seconds":1.25}`:   {Valid: true, Leader: true, Generation: 3, Left: 1250 * time.Millisecond},
		`{"valid":false,"leader":false,"generation":3,"left_seconds":-0.3}`: {Generation: 3, Left: -300 * time.Millisecond},
		`{"valid":false,"leader":false,"generation":0,"left_seconds":0}`:    {},
	} {
		text, err := json.Marshal(s)
		if err != nil || string(text) != want {
			t.Errorf("%v is %s, want %s: %v", s, text, want, err)
		}
		var back gossip.LeaseStatus
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%s is read back as %v: %v", text, back, err)
		}
	}
	for want, s := range map[string]gossip.LeaseStatus{
		"none":                           {},
		"valid for 1.25s":                {Valid: true, Left: 1250 * time.Millisecond},
		"valid, the leader's, for 1.25s": {Valid: true, Leader: true, Left: 1250 * time.Millisecond},
		"ended 300ms ago":                {Leader: true, Left: -300 * time.Millisecond},
		"granted, and not in use until the entities of an earlier membership have stopped": {Left: time.Second},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
	if err := new(gossip.LeaseStatus).UnmarshalJSON([]byte(`"valid for 1s"`)); err == nil {
		t.Error("a sentence is read as a lease")
	}
}
