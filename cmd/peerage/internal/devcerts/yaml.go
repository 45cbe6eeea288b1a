package devcerts

import (
	"fmt"
	"net"
	"strings"
)

// nodeSettings returns the file that `peerage node --config` reads. Paths are relative to it.
func nodeSettings(cfg *Config, n Node, host string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Start with: peerage node --config %s.yaml\nname: %s\ncluster: %s\nlisten: %s\njoin: %s\n", n.Name, n.Name, cfg.Cluster, n.Listen, joinList(cfg))
	if len(cfg.Nodes) == 1 {
		b.WriteString("bootstrap-expect: 1\n")
	}
	fmt.Fprintf(&b, "tls-cert: %s.pem\ntls-key: %s.key\ntls-ca: %s\ntls-name: %s\nsecret-keys: %s\n", n.Name, n.Name, authorityCert, cfg.Name, keysFile)
	fmt.Fprintf(&b, "# The HTTP API, for holders of a certificate of the same authority.\nhttp: %s\nhttp-tls: true\n", n.HTTP)
	if net.ParseIP(host) == nil {
		fmt.Fprintf(&b, "http-host: %s\n", host)
	}
	return b.String()
}

// operatorSettings returns the file that the commands which look at a cluster read.
func operatorSettings(cfg *Config) string {
	var apis []string
	for _, n := range cfg.Nodes {
		apis = append(apis, n.HTTP)
	}
	return fmt.Sprintf("# Use with: peerage status --config %s.yaml\nnode: [%s]\ntls-cert: %s.pem\ntls-key: %s.key\ntls-ca: %s\ntls-name: %s\n",
		Operator, strings.Join(apis, ", "), Operator, Operator, authorityCert, cfg.Name)
}

func joinList(cfg *Config) string {
	var addrs []string
	for _, n := range cfg.Nodes {
		addrs = append(addrs, n.Listen)
	}
	return "[" + strings.Join(addrs, ", ") + "]"
}
