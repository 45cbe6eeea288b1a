package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/devcerts"
)

const certsHelp = `Makes an authority, certificates, a key for datagrams and a file of settings for each node
of a cluster, and for its operator:

  peerage certs --dir d                      # nodes a, b, c on this machine
  peerage node --config d/a.yaml             # likewise b and c
  peerage status --config d/admin.yaml

For machines of their own: --nodes a=10.0.0.1,b=10.0.0.2,c=10.0.0.3. Copy to each machine
its NAME.pem, NAME.key and NAME.yaml, ca.pem and gossip.keys. The holder of ca.key can make
members. Run again, it keeps the authority, keys and settings, renews the certificates,
which running nodes take up without a restart, and adds new nodes.`

// certsFlags are the flags of `peerage certs`.
type certsFlags struct {
	devcerts.Config
	nodes          list
	port, httpPort int
	days           int
}

func (p *program) certsCommand() *cobra.Command {
	c := &certsFlags{}
	cmd := &cobra.Command{
		Use: "certs", Short: "make an authority, certificates and settings for nodes", Long: certsHelp, Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return p.makeCerts(c) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Dir, "dir", "", "`directory` to write to; is made if it does not exist")
	flags.Var(&c.nodes, "nodes", "nodes: `NAME or NAME=HOST`, with commas; HOST is 127.0.0.1 if it is not given (default a,b,c)")
	flags.StringVar(&c.Cluster, "cluster", "peerage", "name of the cluster")
	flags.StringVar(&c.Name, "tls-name", "node.peerage.internal", "DNS name that the certificates of all nodes carry")
	flags.IntVar(&c.port, "port", 7101, "first port for peers; nodes on the same host take the next ones")
	flags.IntVar(&c.httpPort, "http-port", 8101, "first port of the HTTP API")
	flags.IntVar(&c.days, "days", 90, "how many days certificates are valid")
	return cmd
}

// parseNodes returns the nodes, with ports that differ on one host.
func (c *certsFlags) parseNodes() (nodes []devcerts.Node, err error) {
	if len(c.nodes) == 0 {
		c.nodes = list{"a", "b", "c"}
	}
	onHost, names := map[string]int{}, map[string]bool{}
	for _, text := range c.nodes {
		name, host, found := strings.Cut(text, "=")
		if !found {
			host = "127.0.0.1"
		}
		if name == "" || host == "" || name == devcerts.Operator || name == "ca" || strings.ContainsAny(name, "/\\ ") || names[name] {
			return nil, fmt.Errorf("--nodes names %q: choose a name once, without spaces and slashes, other than %s and ca", text, devcerts.Operator)
		}
		nodes = append(nodes, devcerts.Node{
			Name: name, Listen: net.JoinHostPort(host, strconv.Itoa(c.port+onHost[host])), HTTP: net.JoinHostPort(host, strconv.Itoa(c.httpPort+onHost[host])),
		})
		onHost[host]++
		names[name] = true
	}
	return nodes, nil
}

func (p *program) makeCerts(c *certsFlags) (err error) {
	switch {
	case c.Dir == "":
		return usageError(errors.New("--dir is missing: name a directory for the files"))
	case c.days < 1 || c.days > 3650:
		return usageError(fmt.Errorf("--days is %d: choose 1 to 3650", c.days))
	}
	if c.Nodes, err = c.parseNodes(); err != nil {
		return usageError(err)
	}
	c.Valid = time.Duration(c.days) * 24 * time.Hour
	files, err := devcerts.Make(c.Config)
	if err != nil {
		return err
	}
	var next []string
	for _, n := range c.Nodes {
		next = append(next, "peerage node --config "+filepath.Join(c.Dir, n.Name+".yaml"))
	}
	next = append(next, "peerage status --config "+filepath.Join(c.Dir, devcerts.Operator+".yaml"))
	if p.json {
		return p.printJSON(map[string]any{"files": files, "next": next})
	}
	var rows [][]string
	for _, f := range files {
		kept := ""
		if f.Kept {
			kept = " (kept)"
		}
		rows = append(rows, []string{f.Path, f.Holds + kept})
	}
	printTable(p.stdout, "", rows)
	fmt.Fprintf(p.stdout, "\nNext:  %s\n", strings.Join(next, "\n       "))
	return nil
}
