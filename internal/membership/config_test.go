package membership

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// problem is an invalid setting as Check reports it.
type problem struct{ setting, value, why string }

func (p problem) String() string { return p.setting + " = " + p.value + ": " + p.why }

func TestValidateNamesEveryProblem(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		want []string // "Setting = value" prefixes, in order
	}{
		"zero value":    {Config{}, nil},
		"LAN":           {lanConfig(), nil},
		"Local":         {localConfig(), nil},
		"name":          {Config{Name: "a b"}, []string{`Name = "a b"`}},
		"long name":     {Config{Name: strings.Repeat("y", 129)}, []string{`Name = "yyy`}},
		"control":       {Config{Cluster: "a\nb"}, []string{`Cluster = "a\nb"`}},
		"role":          {Config{Roles: []string{"ok", "not ok", ""}}, []string{`Roles = "not ok"`, `Roles = ""`}},
		"listen":        {Config{Listen: "nonsense"}, []string{`Listen = "nonsense"`}},
		"listen port":   {Config{Bootstrap: true, Listen: "127.0.0.1:99999"}, []string{`Listen = "127.0.0.1:99999"`}},
		"open network":  {Config{Bootstrap: true, Listen: "10.0.0.1:7101"}, []string{`Listen = "10.0.0.1:7101"`, `SecretKeys = 0`}},
		"open, TLS":     {Config{Bootstrap: true, Listen: "10.0.0.1:7101", TLS: &tls.Config{}}, []string{`SecretKeys = 0`}},
		"open, files":   {Config{Bootstrap: true, Listen: "10.0.0.1:7101", Certificates: &transport.Certificates{}}, []string{`SecretKeys = 0`}},
		"TLS, no UDP":   {Config{Bootstrap: true, Listen: "10.0.0.1:7101", TLS: &tls.Config{}, NoDiscovery: true}, nil},
		"both":          {Config{Bootstrap: true, Listen: "10.0.0.1:7101", Certificates: &transport.Certificates{}, SecretKeys: [][]byte{make([]byte, 32)}}, nil},
		"two TLS":       {Config{TLS: &tls.Config{}, Certificates: &transport.Certificates{}}, []string{`TLS = "set"`}},
		"open, key":     {Config{Bootstrap: true, Listen: "10.0.0.1:7101", SecretKeys: [][]byte{make([]byte, 32)}}, []string{`Listen = "10.0.0.1:7101"`}},
		"open, said":    {Config{Bootstrap: true, Listen: "10.0.0.1:7101", InsecureTransport: true}, nil},
		"wildcard":      {Config{Bootstrap: true, Listen: "0.0.0.0:7101", InsecureTransport: true}, []string{`Advertise = ""`}},
		"wildcard told": {Config{Bootstrap: true, Listen: ":7101", Advertise: "10.0.0.1:7101", InsecureTransport: true}, nil},
		"advertise":     {Config{Bootstrap: true, Advertise: "0.0.0.0:1"}, []string{`Advertise = "0.0.0.0:1"`}},
		"contact":       {Config{Join: []string{"127.0.0.1:7101", "127.0.0.1", "h:0"}, BootstrapExpect: 2}, []string{`Join = "127.0.0.1"`, `Join = "h:0"`}},
		"expect":        {Config{Join: []string{"127.0.0.1:1"}, BootstrapExpect: 3}, []string{`BootstrapExpect = 3`}},
		"expect, names": {Config{Join: []string{"h:1"}, BootstrapExpect: 3}, nil},
		"srv":           {Config{Join: []string{"srv:_peerage._tcp.example"}, BootstrapExpect: 2}, nil},
		"bad srv":       {Config{Join: []string{"srv:", "srv:a.example:7101"}, BootstrapExpect: 2}, []string{`Join = "srv:"`, `Join = "srv:a.example:7101"`}},
		"no list":       {Config{Listen: "127.0.0.1:7101"}, []string{`Join = 0`}},
		"told to form":  {Config{Listen: "127.0.0.1:7101", Bootstrap: true}, nil},
		"known by NAT":  {Config{Advertise: "127.0.0.1:7101"}, []string{`Join = 0`}},
		"has met some":  {Config{Listen: "127.0.0.1:7101", FormerMembers: []string{"127.0.0.1:7102"}}, nil},
		"met too many":  {Config{FormerMembers: make([]string, 1025)}, []string{`FormerMembers = 1025`}},
		"names alone":   {Config{Join: []string{"h:1", "i:1", "j:1"}}, []string{`BootstrapExpect = 0`}},
		"one name":      {Config{Join: []string{"h:1"}, BootstrapExpect: 1}, nil},
		"function":      {Config{JoinFunc: func(context.Context) ([]string, error) { return nil, nil }}, []string{`BootstrapExpect = 0`}},
		"one address":   {Config{Join: []string{"127.0.0.1:1", "127.0.0.1:1"}}, []string{`BootstrapExpect = 0`}},
		"the one forms": {Config{Join: []string{"127.0.0.1:1"}, BootstrapExpect: 1}, nil},
		"three":         {Config{Join: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}}, nil},
		"one of three":  {Config{Join: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, BootstrapExpect: 1}, []string{`BootstrapExpect = 1`}},
		"half of four": {Config{Join: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"}, BootstrapExpect: 2},
			[]string{`BootstrapExpect = 2`}},
		"two of three": {Config{Join: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, BootstrapExpect: 2}, nil},
		"members":      {Config{Members: 1000}, nil},
		"many members": {Config{Members: 3000}, []string{`Members = 3000`}},
		"lease":        {Config{Lease: 300 * time.Millisecond}, []string{`Lease = 300ms`}},
		"remove":       {Config{RemoveAfter: time.Second}, []string{`RemoveAfter = 1s`}},
		// The bounds are those of TestOneLostPingCostsNothing (package view).
		"lease of 4 P":   {Config{Lease: 400 * time.Millisecond}, []string{`Lease = 400ms`}},
		"lease of 4.5 P": {Config{Lease: 450 * time.Millisecond}, []string{`Lease = 450ms`}},
		"enough for one": {Config{Lease: 452 * time.Millisecond}, nil},
		"drifting apart": {Config{Lease: 600 * time.Millisecond, DriftPPM: 100_000}, []string{`Lease = 600ms`}},
		"late removal":   {Config{RemoveAfter: 1101 * time.Millisecond}, []string{`RemoveAfter = 1.101s`}},
		"late proofs": {Config{Ping: 20 * time.Millisecond, Lease: 100 * time.Millisecond, RemoveAfter: 400 * time.Millisecond},
			[]string{`Lease = 100ms`}},
		"late proofs do not matter": {Config{Ping: 20 * time.Millisecond, Lease: 100 * time.Millisecond, RemoveAfter: 400 * time.Millisecond,
			CrashEvidence: gossip.EvidenceWithinQuorum}, nil},
		"metadata": {Config{Metadata: map[string]string{"a b": "x", "c": strings.Repeat("y", 300), "d": "\n"}},
			[]string{`Metadata = "a b"`, `Metadata = "c=`, `Metadata = "d=`, `Metadata = "307 bytes"`}},
		"negative ping": {Config{Ping: -1}, []string{`Ping = -1ns`}},
		"drift":         {Config{DriftPPM: -1}, []string{`DriftPPM = -1`}},
		"evidence":      {Config{CrashEvidence: 9}, []string{`CrashEvidence = 9`}},
		"key":           {Config{SecretKeys: [][]byte{make([]byte, 5)}}, []string{`SecretKeys = "[0] of 5 bytes"`}},
		"handler":       {Config{Handlers: map[transport.Kind]transport.Handler{transport.KindView: nil}}, []string{`Handlers = 1`}},
		"block handler": {Config{BlockHandlers: map[transport.Kind]transport.BlockHandler{transport.KindEvidence: nil}}, []string{`BlockHandlers = 5`}},
		"discovery":     {Config{Discovery: gossip.Discovery{ProbeInterval: 1}}, []string{`Discovery.ProbeInterval = 1ns`}},
		"static quorum": {Config{Partition: gossip.StaticQuorum{N: 3}}, nil},
		"quorum of 0":   {Config{Partition: gossip.StaticQuorum{}}, []string{`Partition = "static quorum 0"`}},
		"assume soon":   {Config{Partition: gossip.AssumeCrash{After: 3 * time.Second}}, []string{`Partition = "assume crash after 3s"`}},
		"assume blindly": {Config{Partition: gossip.AssumeCrash{After: 10 * time.Second}, CrashEvidence: gossip.EvidenceOff},
			[]string{`Partition = "assume crash after 10s"`}},
		"own policy":    {Config{Partition: everyone{}}, nil},
		"unsafe policy": {Config{Partition: anybody{}}, []string{`Partition = anybody`}},
		"many at once": {Config{Name: "/", Listen: "x", Lease: 1, DriftPPM: 1 << 30},
			[]string{`DriftPPM`, `Lease`, `Listen`, `Name`}},
	} {
		err := test.cfg.Validate()
		var problems []problem
		test.cfg.Check(func(setting, value, why string) { problems = append(problems, problem{setting, value, why}) })
		slices.SortStableFunc(problems, func(a, b problem) int { return strings.Compare(a.setting, b.setting) })
		if (err != nil) != (len(problems) > 0) || err != nil && !errors.Is(err, ErrSettings) {
			t.Errorf("%s: Validate returns %v, Check reports %v", name, err, problems)
		}
		if len(problems) != len(test.want) {
			t.Errorf("%s: %d problems, want %d: %v", name, len(problems), len(test.want), err)
			continue
		}
		for i, p := range problems {
			if err != nil && !strings.Contains(err.Error(), p.String()) {
				t.Errorf("%s: problem %q is missing in %v", name, p, err)
			}
			if !strings.HasPrefix(p.String(), test.want[i]) {
				t.Errorf("%s: problem %d is %q, want prefix %q", name, i, p, test.want[i])
			}
			if p.why == "" {
				t.Errorf("%s: problem %d does not say why", name, i)
			}
		}
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	err := Config{SecretKeys: [][]byte{[]byte("hunter2")}}.Validate()
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
}

func TestDefaultsAreTheProfileLAN(t *testing.T) {
	a, b := Config{}.withDefaults(), lanConfig().withDefaults()
	if a.Ping != b.Ping || a.Lease != b.Lease || a.RemoveAfter != b.RemoveAfter || a.Discovery != b.Discovery ||
		a.SettleAfter != b.SettleAfter || a.ReformAfter != b.ReformAfter || a.CrashEvidence != gossip.EvidenceFull {
		t.Errorf("zero value gives %+v, LAN gives %+v", a, b)
	}
}

// everyone is a valid policy of an application: all members must be present.
type everyone struct{}

func (everyone) String() string                                       { return "everyone" }
func (everyone) Survives(*gossip.View, func(gossip.NodeID) bool) bool { return false }
func (everyone) Quorum(v *gossip.View, in func(gossip.NodeID) bool) bool {
	for _, m := range v.WithRole("") {
		if !in(m.ID) {
			return false
		}
	}
	return true
}

// anybody is an invalid one.
type anybody struct{ everyone }

func (anybody) String() string { return "anybody" }
func (anybody) Quorum(v *gossip.View, in func(gossip.NodeID) bool) bool {
	for _, m := range v.Members {
		if in(m.ID) {
			return true
		}
	}
	return false
}

func TestTimesGrowWithTheMembers(t *testing.T) {
	for members, want := range map[int]time.Duration{0: 100, 3: 100, 200: 100, 300: 150, 1000: 500} {
		c := Config{Members: members}.withDefaults()
		p := want * time.Millisecond
		if c.Ping != p || c.Lease != 10*p || c.RemoveAfter != 20*p {
			t.Errorf("%d members: P %v, L %v, RemoveAfter %v", members, c.Ping, c.Lease, c.RemoveAfter)
		}
	}
	if c := (Config{Members: 1000, Ping: time.Second}).withDefaults(); c.Ping != time.Second || c.Lease != 5*time.Second {
		t.Errorf("what is set is kept: %v %v", c.Ping, c.Lease)
	}
}
