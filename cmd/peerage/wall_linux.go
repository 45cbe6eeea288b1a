package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// A wall cuts processes off from each other. The whole run lives in a network namespace
// of its own, which goes with it, so the rules never touch the machine's firewall. Each
// place has a loopback address and a group id; a rule drops what sockets of one group
// send to the address of another place: what it dials, and its datagrams. Both ways
// between two places, nothing passes.
type wall struct{}

// wallTable counts what it drops, so that a cut without effect is noticed.
const wallTable = `table inet peerage {
	counter dropped {}
	chain out { type filter hook output priority 0; policy accept; }
}`

// placeHost is where the processes of a place listen, placeGroup the group they run in.
func placeHost(i int) string  { return fmt.Sprintf("127.77.0.%d", i+1) }
func placeGroup(i int) uint32 { return uint32(60_001 + i) }

func thisNetwork() (string, error) { return os.Readlink("/proc/self/ns/net") }

// inNetworkOfItsOwn runs the command again in a new network namespace and returns its
// exit code. The child learns by --apart-from that it is there.
func inNetworkOfItsOwn(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, fmt.Errorf("cuts need the programs ip and nft (packages iproute2 and nftables): %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	here, err := thisNetwork()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"chaos", "--apart-from", here}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it reports what it has
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err = cmd.Run()
	if errors.Is(err, syscall.EPERM) {
		return 0, fmt.Errorf("cuts need root, for a network namespace of their own: %w", err)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// newWall prepares the namespace. It refuses to work in the one named.
func newWall(ctx context.Context, apartFrom string) (*wall, error) {
	switch here, err := thisNetwork(); {
	case err != nil:
		return nil, err
	case here == apartFrom:
		return nil, fmt.Errorf("--apart-from names the network namespace of this process, %s", here)
	}
	if out, err := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ip link set lo up: %w: %s", err, out)
	}
	w := &wall{}
	return w, w.rules(ctx, wallTable)
}

func (w *wall) rules(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// cut separates each of some places from each of some others, all at one instant.
func (w *wall) cut(ctx context.Context, some, others []int) error {
	var b bytes.Buffer
	drop := func(from, to int) {
		fmt.Fprintf(&b, "add rule inet peerage out meta skgid %d ip daddr %s counter name dropped drop\n", placeGroup(from), placeHost(to))
	}
	for _, i := range some {
		for _, j := range others {
			drop(i, j)
			drop(j, i)
		}
	}
	return w.rules(ctx, b.String())
}

// heal ends all cuts, and returns how many packets they dropped since the last time.
func (w *wall) heal(ctx context.Context) (dropped int, err error) {
	if err := w.rules(ctx, "flush chain inet peerage out"); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, "nft", "reset", "counter", "inet", "peerage", "dropped").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("nft: %w: %s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if n, _ := fmt.Sscanf(strings.TrimSpace(line), "packets %d", &dropped); n == 1 {
			return dropped, nil
		}
	}
	return 0, fmt.Errorf("nft reset counter says %q", out)
}

// behind has a process that is not started yet run in the group of a place.
func (w *wall) behind(cmd *exec.Cmd, place int) {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(os.Getuid()), Gid: placeGroup(place), NoSetGroups: true}
}
