package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// replay starts the cluster, sends the events and compares the totals.
func replay(ctx context.Context, events []event, out io.Writer) (err error) {
	list, err := freeAddresses(processes)
	if err != nil {
		return err
	}
	node, files, err := joinCluster(ctx, settingsOf(list[0], list))
	if err != nil {
		return err
	}
	members, err := startMembers(list)
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, node.Close(), members.stopAll(stop))
	}()
	if err != nil {
		return err
	}
	if err := waitFor(ctx, node); err != nil {
		return err
	}
	began := time.Now()
	if err := sendEvents(ctx, files, events); err != nil {
		return err
	}
	took := time.Since(began)
	want := straight(events)
	wrong, err := compare(ctx, files, want, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d events on %d entities through %d processes in %v (%.0f events/s), %d entities in this process\n",
		len(events), len(want), processes, took.Round(time.Millisecond), float64(len(events))/took.Seconds(), files.Stats().Entities)
	if wrong > 0 {
		return fmt.Errorf("%d of %d entities have other totals than one straight pass", wrong, len(want))
	}
	fmt.Fprintln(out, "all totals are equal to those of one straight pass, entity by entity")
	return nil
}

// freeAddresses returns addresses at which nothing listens. A service has fixed ones.
func freeAddresses(n int) (list []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list, nil
}

// waitFor waits until all processes are members.
func waitFor(ctx context.Context, node *peerage.Node) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if v := node.View(); v != nil && len(v.WithRole("")) == processes && node.Ready() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d processes: %w", processes, ctx.Err())
		}
	}
}

// lanes is how many senders work side by side. An entity has one lane, so its
// events are sent in their order.
const lanes = 64

func sendEvents(ctx context.Context, files *sharding.Region[change, totals], events []event) error {
	seed := maphash.MakeSeed()
	queues := make([][]event, lanes)
	for _, e := range events {
		lane := maphash.String(seed, e.entity) % lanes
		queues[lane] = append(queues[lane], e)
	}
	errs := make([]error, lanes)
	var senders sync.WaitGroup
	for i, queue := range queues {
		senders.Go(func() { errs[i] = sendLane(ctx, files, queue) })
	}
	senders.Wait()
	return errors.Join(errs...)
}

func sendLane(ctx context.Context, files *sharding.Region[change, totals], queue []event) error {
	for _, e := range queue {
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := files.Ask(one, e.entity, change{Apply: true, Added: e.added, Deleted: e.deleted})
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", e.entity, err)
		}
	}
	return nil
}

// compare asks every entity for its totals and prints those that are wrong.
func compare(ctx context.Context, files *sharding.Region[change, totals], want map[string]totals, out io.Writer) (wrong int, err error) {
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		got, err := files.Ask(one, name, change{})
		cancel()
		if err != nil {
			return wrong, fmt.Errorf("%s: %w", name, err)
		}
		if got != want[name] {
			wrong++
			fmt.Fprintf(out, "%s: %+v through the cluster, %+v in one pass\n", name, got, want[name])
		}
	}
	return wrong, nil
}

// memberProcesses are the other processes of the cluster. Each ends when its
// standard input does, however this process ends.
type memberProcesses struct {
	cmds   []*exec.Cmd
	inputs []io.Closer
}

func startMembers(list []string) (*memberProcesses, error) {
	m := &memberProcesses{}
	self, err := os.Executable()
	if err != nil {
		return m, err
	}
	for _, addr := range list[1:] {
		cmd := exec.Command(self, "--member-of", strings.Join(list, ","), "--listen", addr)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return m, err
		}
		if err := cmd.Start(); err != nil {
			return m, err
		}
		m.cmds, m.inputs = append(m.cmds, cmd), append(m.inputs, in)
	}
	return m, nil
}

// stopAll ends the processes: in order at first, by force when ctx ends.
func (m *memberProcesses) stopAll(ctx context.Context) error {
	for _, in := range m.inputs {
		in.Close()
	}
	var errs []error
	for _, cmd := range m.cmds {
		force := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
		errs = append(errs, cmd.Wait())
		force()
	}
	return errors.Join(errs...)
}
