package metrics_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage"
)

// A node registers its Exporter with Config.Registerer.
func Example() {
	registry := prometheus.NewRegistry()
	node, err := peerage.Start(context.Background(), peerage.Config{Registerer: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	families, err := registry.Gather()
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "peerage_cluster_quorum") {
			fmt.Println(f.GetName(), f.GetType())
		}
	}
	fmt.Println(err)
	// Output:
	// peerage_cluster_quorum GAUGE
	// peerage_cluster_quorum_lost_total COUNTER
	// <nil>
}
