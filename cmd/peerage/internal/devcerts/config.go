package devcerts

import "time"

// Node is a node that gets a certificate and a file of settings.
type Node struct {
	Name string
	// Listen is the host:port for peers, HTTP that of the HTTP API.
	Listen, HTTP string
}

// Config describes what Make makes.
type Config struct {
	// Dir is made if it does not exist.
	Dir     string
	Cluster string
	Nodes   []Node
	// Name is the DNS name that all certificates of nodes carry, and the operator's does not:
	// so the operator's certificate opens the HTTP API, but makes no peer.
	Name string
	// Valid is how long the certificates are valid.
	Valid time.Duration
}

// File is a file that Make has written, or found and kept.
type File struct {
	Path string `json:"file"`
	// Holds describes its content.
	Holds string `json:"holds"`
	// Kept is set if the file existed already and was not changed.
	Kept bool `json:"kept"`
}

// The files beside those of the nodes.
const (
	authorityCert = "ca.pem"
	authorityKey  = "ca.key"
	keysFile      = "gossip.keys"
	// Operator is the name of the operator's certificate and settings.
	Operator = "admin"
)
