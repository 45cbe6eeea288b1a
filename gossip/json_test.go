package gossip_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

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
