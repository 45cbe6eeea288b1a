package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/dashboard"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/sharding"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Config holds the settings of `peerage node`.
type Config struct {
	// Node holds the settings that have a flag of their own name.
	Node peerage.Config
	HTTP string
	// HTTPHosts are host names that HTTP requests may use. InsecureHTTP allows an
	// address other than loopback.
	HTTPHosts    []string
	InsecureHTTP bool
	// Profiles serves the profiles of the Go runtime below /debug/pprof/.
	Profiles bool
	// HTTPTLS serves the HTTP API by TLS with Certificates, to clients that hold a
	// certificate of the same authority.
	HTTPTLS bool
	// DashboardAllow names what the page of the dashboard may change, of the actions below.
	DashboardAllow []string
	// Certificates are used if any of their files is named, KeysFile if it is.
	Certificates peerage.CertificateFiles
	KeysFile     string
	Shards       int
	// MinMembers is how many nodes must be there before the first shard is placed.
	MinMembers int
	// Replicas is how many nodes hold each count, 0 for the counter's home alone.
	Replicas int
	// Strategy is StrategyEven, which "" stands for, or StrategyExternal.
	Strategy string
	// StateBytes is how large each count's state is at least.
	StateBytes int
	LameDuck   time.Duration
	Log        string
	// LogJSON writes each line of the log as JSON.
	LogJSON bool

	PrintAddresses bool
	PrintStats     time.Duration
	History        string
	LoadCounters   int
	LoadEvery      time.Duration
	// LoadInFlight is how many of the load's requests may be in flight.
	LoadInFlight  int
	LoadRegisters int
	LoadSet       bool
	LoadReliable  bool

	// DataDir is where the node keeps its files, "" for none.
	DataDir string
	// WallAhead is how far its wall clock is set ahead at first, wall the clock itself.
	WallAhead time.Duration
	wall      clock.Wall

	// OnReady, if set, is called once, when the node is ready for the first time; OnStop is
	// called when it begins to stop.
	OnReady, OnStop func()
	// Force returns a context that ends when the operator asks a second time: stopping then
	// ends immediately.
	Force func() (context.Context, context.CancelFunc)
}

// The strategies by which shards of counters find their homes.
const (
	StrategyEven     = "even"
	StrategyExternal = "external"
)

// The actions that the page of the dashboard may be allowed.
const (
	ActionDrain     = "drain"
	ActionPlace     = "place"
	ActionPassivate = "passivate"
)

// dashboardOptions returns the options of the dashboard. It fails for unknown actions.
func (c *Config) dashboardOptions() (o dashboard.Options, err error) {
	for _, action := range c.DashboardAllow {
		switch action {
		case ActionDrain:
			o.AllowDrain = true
		case ActionPassivate:
			o.AllowPassivate = true
		case ActionPlace:
			if o.AllowPlace = true; c.Strategy != StrategyExternal {
				return o, fmt.Errorf("--dashboard-allow %s needs --strategy %s: other strategies read no wishes", ActionPlace, StrategyExternal)
			}
		default:
			return o, fmt.Errorf("--dashboard-allow names %q: choose %s, %s or %s", action, ActionDrain, ActionPlace, ActionPassivate)
		}
	}
	return o, nil
}

// strategies are those that --strategy names; nil is the default of sharding.Type.
var strategies = map[string]sharding.Strategy{"": nil, StrategyEven: nil, StrategyExternal: strategy.External{}}

// secure reads what the security flags name.
func (c *Config) secure() (files *peerage.CertificateFiles, err error) {
	if err := checkHTTPAddr(c.HTTP, c.InsecureHTTP || c.HTTPTLS); err != nil {
		return nil, err
	}
	if c.KeysFile != "" {
		if c.Node.SecretKeys, err = readSecretKeys(c.KeysFile); err != nil {
			return nil, fmt.Errorf("--secret-keys: %w", err)
		}
	}
	if c.Certificates == (peerage.CertificateFiles{}) {
		if c.HTTPTLS {
			return nil, errors.New("--http-tls needs --tls-cert, --tls-key and --tls-ca")
		}
		return nil, nil
	}
	return &c.Certificates, nil
}

// Command executes a line of standard input. It ignores unknown lines.
func (c *Config) Command(line string) {
	if d, err := time.ParseDuration(strings.TrimPrefix(line, harness.WallOffset)); err == nil {
		c.wall.Set(d)
	}
}
