package namespace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// A Wall breaks the network between processes. The whole run lives in a network namespace
// of its own, which ends with it, so the rules never touch the machine's firewall. Each
// place has a loopback address and a group id. A rule matches the packets that sockets of
// one group send to the address of another place, and what they answer on connections
// from there, which the kernel's connection tracking has marked.
type Wall struct {
	// routed is set once delayed packets have a route.
	routed bool
}

// wallTable marks connections by their places, and counts what it drops or rejects, so
// that a breakage without effect is noticed.
func wallTable(places int) string {
	var b strings.Builder
	b.WriteString("table inet peerage {\n\tcounter dropped {}\n\tchain marking {\n\t\ttype filter hook output priority -10; policy accept;\n\t\tct state != new accept\n")
	for i := range places {
		for j := range places {
			if i != j {
				fmt.Fprintf(&b, "\t\tmeta skgid %d ip daddr %s ct state new ct mark set %d\n", placeGroup(i), PlaceHost(j), Path{i, j}.mark())
			}
		}
	}
	b.WriteString("\t}\n\tchain out { type filter hook output priority 0; policy accept; }\n}\n")
	return b.String()
}

// mark is the mark of connections that are dialled along a path, for up to 256 places.
func (p Path) mark() int { return 0x10000 + p.From<<8 + p.To }

// PlaceHost is where the processes of a place listen, placeGroup the group they run in.
func PlaceHost(i int) string  { return fmt.Sprintf("127.77.0.%d", i+1) }
func placeGroup(i int) uint32 { return uint32(60_001 + i) }

// theseNamespaces names the network and the mounts that this process sees.
func theseNamespaces() (string, error) {
	network, err := os.Readlink("/proc/self/ns/net")
	mounts, err2 := os.Readlink("/proc/self/ns/mnt")
	return network + "," + mounts, errors.Join(err, err2)
}

// apart fails if the namespace of a kind, "net" or "mnt", is among those named.
func apart(kind, from string) error {
	here, err := os.Readlink("/proc/self/ns/" + kind)
	if err == nil && strings.Contains(from, here) {
		err = fmt.Errorf("--apart-from names a namespace of this process, %s", here)
	}
	return err
}

// PrivateMounts keeps mounts of this process from reaching the namespace it came from.
func PrivateMounts(apartFrom string) error {
	if err := apart("mnt", apartFrom); err != nil {
		return err
	}
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	return nil
}

// MountDisk mounts a small disk in memory over a directory. It ends with the namespace.
func MountDisk(dir string, size int) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0777", size)); err != nil {
		return fmt.Errorf("mounting a disk over %s: %w", dir, err)
	}
	return nil
}

// UnmountDisk takes a disk away, so that its directory can be removed.
func UnmountDisk(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// RunApart runs a command of this program again in a new namespace of mounts, and one of the
// network, and returns its exit code. The words of the command stand before the flags args; a
// program without commands passes none. The child learns by --apart-from that it is there.
func RunApart(ctx context.Context, command, args []string, network bool, stdout, stderr io.Writer) (int, error) {
	flags := uintptr(syscall.CLONE_NEWNS)
	var tools []string
	if network {
		flags |= syscall.CLONE_NEWNET
		tools = []string{"ip", "nft"}
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, fmt.Errorf("cuts need the programs ip and nft (packages iproute2 and nftables): %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	here, err := theseNamespaces()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, self, slices.Concat(command, []string{"--apart-from", here}, args)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it reports what it has
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	err = cmd.Run()
	if errors.Is(err, syscall.EPERM) {
		return 0, fmt.Errorf("cuts and disks need root, for namespaces of their own: %w", err)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// NewWall prepares this process's network namespace. It fails if that is the namespace
// apartFrom, so that it never changes the machine's own.
func NewWall(ctx context.Context, apartFrom string, places int) (*Wall, error) {
	if err := apart("net", apartFrom); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ip link set lo up: %w: %s", err, out)
	}
	w := &Wall{}
	return w, w.rules(ctx, wallTable(places))
}

func (w *Wall) rules(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// breakages are the rules for each way to break a direction.
var breakages = map[Breakage][]string{
	DropAll: {"counter name dropped drop"},
	// Datagrams are dropped, and connections are reset in the peer's name. By the reset
	// alone, a firewall in the middle and the peer's own kernel look the same.
	ResetTCP:     {"meta l4proto tcp counter name dropped reject with tcp reset", "counter name dropped drop"},
	ResetDials:   {"tcp flags & (syn | ack) == syn counter name dropped reject with tcp reset", "meta l4proto udp counter name dropped drop"},
	ProhibitAll:  {"counter name dropped reject with icmpx admin-prohibited"},
	NoRouteToAll: {"counter name dropped reject with icmpx host-unreachable"},
	LoseFew:      {"numgen random mod 100 < 3 counter name dropped drop"},
	LoseMany:     {"numgen random mod 100 < 20 counter name dropped drop"},
}

// BreakPaths breaks directions between places, all at one instant.
func (w *Wall) BreakPaths(ctx context.Context, how Breakage, paths []Path) error {
	var b bytes.Buffer
	for _, p := range paths {
		for _, rule := range breakages[how] {
			fmt.Fprintf(&b, "add rule inet peerage out meta skgid %d ip daddr %s %s\n", placeGroup(p.From), PlaceHost(p.To), rule)
			back := Path{p.To, p.From}
			fmt.Fprintf(&b, "add rule inet peerage out meta skgid %d ct direction reply ct mark %d %s\n", placeGroup(p.From), back.mark(), rule)
		}
	}
	return w.rules(ctx, b.String())
}

// Unbreak ends all breakages and leaves the count of packets as it is.
func (w *Wall) Unbreak(ctx context.Context) error {
	return w.rules(ctx, "flush chain inet peerage out")
}

// Heal ends all breakages, and returns how many packets they hit since the last time.
func (w *Wall) Heal(ctx context.Context) (hit int, err error) {
	if err := w.Unbreak(ctx); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, "nft", "reset", "counter", "inet", "peerage", "dropped").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("nft: %w: %s", err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if n, _ := fmt.Sscanf(strings.TrimSpace(line), "packets %d", &hit); n == 1 {
			return hit, nil
		}
	}
	return 0, fmt.Errorf("nft reset counter printed %q", out)
}

// Behind has a process that is not started yet run in the group of a place.
func (w *Wall) Behind(cmd *exec.Cmd, place int) {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(os.Getuid()), Gid: placeGroup(place), NoSetGroups: true}
}
