package membership

import (
	"fmt"
	"strings"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// TransportConfig returns the configuration of a transport for this node, for
// applications that set Transport. The id must be random and new at every start.
func (c Config) TransportConfig(id gossip.NodeID) transport.Config {
	c = c.withDefaults()
	return transport.Config{
		ID: id, Name: c.nodeName(id), Cluster: c.Cluster, Process: c.Process, Incarnation: c.Incarnation,
		Settings: c.settings(), Logger: c.Logger,
	}
}

// nodeName returns the name, or its default.
func (c *Config) nodeName(id gossip.NodeID) string {
	switch {
	case c.Name != "":
		return c.Name
	case c.Advertise != "" && !strings.HasSuffix(c.Advertise, ":0"):
		return c.Advertise
	case !strings.HasSuffix(c.Listen, ":0"):
		return c.Listen
	}
	return "node-" + id.String()[:8]
}

// openTransport opens the port.
func openTransport(c *Config, id gossip.NodeID) (transport.Transport, error) {
	t, err := transport.NewTCP(transport.TCPConfig{
		Config: c.TransportConfig(id),
		Listen: c.Listen, Advertise: c.Advertise, Certificates: c.Certificates, TLS: c.TLS, SharedSecrets: c.SharedSecrets,
	})
	if err != nil {
		return nil, fmt.Errorf("gossip: Listen = %q: %w", c.Listen, err)
	}
	return t, nil
}
