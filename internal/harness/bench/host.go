package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/internal/harness/fleet"
	"github.com/peerage-go/peerage/sharding"
)

// host is the other process of the remote measures: it hosts entities that do
// nothing, and serves the raw limits.
type host struct {
	Listen string `json:"listen"`
	Raw    string `json:"raw"`

	cmd   *exec.Cmd
	stdin io.Closer
}

const hostRole = "host"

// meterID is the entity that returns how many requests its node has handled, and dropped.
const meterID = "meter"

// counted is what a host counts.
type counted struct {
	handled atomic.Uint64
	region  atomic.Pointer[sharding.Region[[]byte, []byte]]
}

// rawType is a type of requests and responses that are bytes, and whose entities
// only count; nil for nodes that only send. Its limits are the defaults, but for the payloads
// of asks beside large ones.
func rawType(c *counted) sharding.Type[[]byte, []byte] {
	return sharding.Type[[]byte, []byte]{
		Name: "raw", Role: hostRole, Limits: sharding.Limits{PayloadBytes: 3 << 20},
		New: func(id string) sharding.Entity[[]byte, []byte] {
			if id == meterID {
				return sharding.Func(func(*sharding.Context, []byte) ([]byte, error) {
					return fmt.Append(nil, c.handled.Load(), " ", allDropped(c.region.Load().Stats())), nil
				})
			}
			return sharding.Func(func(_ *sharding.Context, p []byte) ([]byte, error) {
				c.handled.Add(1)
				return p[:1], nil
			})
		},
	}
}

// Serve is `peerage bench serve`, which bench starts by itself. It serves until ctx ends.
func Serve(ctx context.Context, stdout io.Writer) error {
	cfg := peerage.LocalConfig()
	cfg.Bootstrap, cfg.Roles, cfg.Listen = true, []string{hostRole}, "127.0.0.1:0"
	node, err := peerage.New(cfg)
	if err != nil {
		return err
	}
	c := new(counted)
	region, err := sharding.Register(node.Registry(), rawType(c))
	if err != nil {
		return err
	}
	c.region.Store(region)
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Close()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer raw.Close()
	go serveRaw(raw)
	if err := node.WaitReady(ctx); err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(host{Listen: node.Self().Addr, Raw: raw.Addr().String()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// startHost runs this program again as the other process.
func startHost() (*host, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &host{cmd: exec.Command(self, "bench", "serve")}
	h.cmd.Stderr, h.cmd.SysProcAttr = os.Stderr, fleet.ChildAttr()
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(out).Decode(h); err != nil {
		h.stopProcess()
		return nil, fmt.Errorf("the other process: %w", err)
	}
	return h, nil
}

// stopProcess ends the process; it goes when its standard input closes.
func (h *host) stopProcess() {
	h.stdin.Close()
	t := time.AfterFunc(5*time.Second, func() { _ = h.cmd.Process.Kill() })
	defer t.Stop()
	// However it ended, it is gone.
	_ = h.cmd.Wait()
}
