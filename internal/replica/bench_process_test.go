package replica

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// childEnv makes the test binary a node of BenchmarkMajorityProcesses.
const childEnv = "PEERAGE_REPLICATOR_CHILD"

// childSpec is what childEnv holds.
type childSpec struct {
	ID gossip.NodeID
	N  int
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := runChild(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild is a node that says where it is, is told of the others, and serves until its
// input ends.
func runChild(env string) error {
	var spec childSpec
	if err := json.Unmarshal([]byte(env), &spec); err != nil {
		return err
	}
	node, err := newBenchNode(spec.ID, spec.N, openTCP)
	if err != nil {
		return err
	}
	defer node.stop()
	if err := json.NewEncoder(os.Stdout).Encode(node.tr.Self()); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	var peers []transport.Peer
	if err := json.NewDecoder(in).Decode(&peers); err != nil {
		return err
	}
	node.meet(peers)
	_, err = io.Copy(io.Discard, in)
	return err
}

func openTCP(c transport.Config) (transport.Transport, error) {
	return transport.NewTCP(transport.TCPConfig{Config: c})
}

// child starts the node id of n in a process of its own, and returns where it is and how
// to tell it of the others.
func child(b *testing.B, id gossip.NodeID, n int) (transport.Peer, io.Writer) {
	spec, err := json.Marshal(childSpec{id, n})
	fatal(b, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(spec)), os.Stderr
	in, err := cmd.StdinPipe()
	fatal(b, err)
	out, err := cmd.StdoutPipe()
	fatal(b, err)
	fatal(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	var self transport.Peer
	fatal(b, json.NewDecoder(out).Decode(&self))
	return self, in
}

// BenchmarkMajorityProcesses is BenchmarkMajority with every node in a process of its
// own: writes and raw round trips go over the same connections between the same
// processes, in turns.
func BenchmarkMajorityProcesses(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			first, err := newBenchNode(1, n, openTCP)
			fatal(b, err)
			b.Cleanup(first.stop)
			peers := []transport.Peer{first.tr.Self()}
			var tell []io.Writer
			for id := gossip.NodeID(2); id <= gossip.NodeID(n); id++ {
				peer, in := child(b, id, n)
				peers, tell = append(peers, peer), append(tell, in)
			}
			for _, in := range tell {
				fatal(b, json.NewEncoder(in).Encode(peers))
			}
			first.meet(peers)
			majorityWrites(b, first, n)
		})
	}
}
