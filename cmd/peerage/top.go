package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/peerage-go/peerage/cmd/peerage/internal/client"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/harness/terminal"
)

const topHelp = `Shows the members of a cluster with their shards, entities and rates, again and again, until
Ctrl-C. Into a pipe, it writes a table each time. Rates come from /metrics of the members
whose HTTP API can be reached from here; "peerage node" publishes its address.`

// topRow is a member in the output of `peerage top`.
type topRow struct {
	Name     string        `json:"name"`
	Node     gossip.NodeID `json:"node"`
	State    string        `json:"state"`
	Leader   bool          `json:"leader"`
	Shards   int           `json:"shards"`
	Entities int           `json:"entities"`
	// Buffered is the number of messages that wait for a home.
	Buffered uint64 `json:"buffered"`
	// PerSecond is the rate of messages that the node sent since the last time, nil if it is
	// not available.
	PerSecond *float64 `json:"messages_per_second"`
}

// sentMessages is the counter from which rates are taken.
const sentMessages = "peerage_region_messages_total"

// top holds what a run of `peerage top` remembers from one picture to the next.
type top struct {
	client   *client.Client
	patience time.Duration

	at   time.Time
	sent map[gossip.NodeID]float64
}

func (p *program) topCommand() *cobra.Command {
	every, count := time.Second, 0
	l := &looker{
		use: "top", short: "watch the members of a cluster, with shards, entities and rates", long: topHelp, patience: askPatience, endless: true,
	}
	l.run = func(ctx context.Context, c *client.Client, _ []string) error {
		if every < 100*time.Millisecond || count < 0 {
			return usageError(errors.New("--every must be at least 100ms, --count 0 or more"))
		}
		return p.showTop(ctx, &top{client: c, patience: l.patience}, every, count)
	}
	cmd := p.lookCommand(l)
	cmd.Flags().DurationVar(&every, "every", every, "interval of the pictures")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many pictures (0: at Ctrl-C)")
	return cmd
}

// showTop shows one picture after the other until ctx ends.
func (p *program) showTop(ctx context.Context, t *top, every time.Duration, count int) error {
	screen := terminal.New(p.stdout)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; ; n++ {
		o, rows, err := t.askOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case p.json:
			err = p.printJSON(rows)
		case screen.Live():
			screen.Draw(append(topLines(screen, &o, rows), "", screen.Paint(terminal.Dim, "Ctrl-C ends")))
		default:
			screen.Print(0, strings.Join(append(topLines(screen, &o, rows), ""), "\n"))
		}
		if err != nil || n == count {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// askOnce asks the cluster once.
func (t *top) askOnce(ctx context.Context) (overview, []topRow, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.patience, client.ErrTooLate)
	defer cancel()
	o, err := askCluster(ctx, t.client, "")
	if err != nil {
		return o, nil, err
	}
	members := o.members()
	sent, now := t.readSent(ctx, members), time.Now()
	failed := o.failed()
	rows := []topRow{}
	for _, m := range members {
		row := topRow{Name: m.Name, Node: m.Node, State: m.Status.String(), Leader: m.Leader, Buffered: o.buffered(m.Node)}
		if failed[m.Node] != "" {
			row.State = "no answer"
		}
		row.Shards, row.Entities = o.hosted(m.Node)
		before, was := t.sent[m.Node]
		if after, is := sent[m.Node]; was && is {
			rate := max(0, after-before) / now.Sub(t.at).Seconds()
			row.PerSecond = &rate
		}
		rows = append(rows, row)
	}
	t.sent, t.at = sent, now
	return o, rows, nil
}

// readSent reads how many messages each member has sent, from those that can be reached.
func (t *top) readSent(ctx context.Context, members []memberRow) map[gossip.NodeID]float64 {
	var mu sync.Mutex
	var all sync.WaitGroup
	sent := map[gossip.NodeID]float64{}
	for _, m := range members {
		if m.HTTP == "" {
			continue
		}
		all.Go(func() {
			text, err := t.client.Metrics(ctx, m.HTTP)
			if err != nil {
				return // its rate is then not available
			}
			if n, ok := sumOf(text, sentMessages); ok {
				mu.Lock()
				defer mu.Unlock()
				sent[m.Node] = n
			}
		})
	}
	all.Wait()
	return sent
}

// sumOf sums the series of a counter in the text of /metrics.
func sumOf(text []byte, name string) (sum float64, ok bool) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil || families[name].GetType() != dto.MetricType_COUNTER {
		return 0, false
	}
	for _, m := range families[name].GetMetric() {
		sum += m.GetCounter().GetValue()
	}
	return sum, true
}

// buffered returns how many messages wait at a node for a home.
func (o *overview) buffered(id gossip.NodeID) (n uint64) {
	for _, t := range o.Types {
		for _, s := range t.Nodes {
			if s.Node == id {
				n += s.Buffered
			}
		}
	}
	return n
}

// topLines returns the picture, a line for each member.
func topLines(screen *terminal.Screen, o *overview, rows []topRow) []string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "cluster %s, %d members, view %s, asked %s at %s\n\n", o.Node.Cluster, len(rows), viewOf(o), o.Node.Name, time.Now().Format(time.TimeOnly))
	var lines [][]string
	for _, r := range rows {
		state, rate := r.State, "-"
		if r.Leader {
			state += ", leader"
		}
		if r.PerSecond != nil {
			rate = figure(int(*r.PerSecond + 0.5))
		}
		lines = append(lines, []string{r.Name, state, figure(r.Shards), figure(r.Entities), rate, figure(r.Buffered)})
	}
	printTable(&b, "NAME STATE SHARDS ENTITIES MESSAGES/S WAITING", lines)
	picture := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, r := range rows {
		if at := i + 3; r.State != "up" && at < len(picture) {
			picture[at] = screen.Paint(terminal.Yellow, picture[at])
		}
	}
	return picture
}

func viewOf(o *overview) string {
	if o.Node.View == nil {
		return "-"
	}
	return o.Node.View.Epoch.String()
}
