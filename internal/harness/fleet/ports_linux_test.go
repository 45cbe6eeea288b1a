package fleet

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A child of this test reserves the address in this variable, and holds it until its
// standard input closes.
const reserveEnv = "FLEET_TEST_RESERVE"

// An address of one fleet is none of another, in this process or in another one, also while
// nothing listens there; and it is free again when the fleet ends or its process is killed.
func TestFleetsTakeDifferentAddresses(t *testing.T) {
	if addr := os.Getenv(reserveEnv); addr != "" {
		if _, err := reserve(addr); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("reserved\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the pipe
		return
	}
	f := &Fleet{}
	addr, err := f.FreeAddr(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reserve(addr); err == nil {
		t.Errorf("%s is reserved twice", addr)
	}
	if out, err := holder(t, addr).CombinedOutput(); err == nil {
		t.Errorf("another process has reserved %s: %s", addr, out)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the fleet itself cannot listen: %v", err)
	}
	l.Close()
	f.End()
	other := holder(t, addr)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "reserved\n" {
		t.Fatalf("%s is not free after the end of its fleet: %q, %v", addr, line, err)
	}
	if _, err := reserve(addr); err == nil {
		t.Errorf("%s is reserved twice", addr)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	lock, err := reserve(addr)
	if err != nil {
		t.Fatalf("%s is not free after its holder was killed: %v", addr, err)
	}
	lock.Close()
}

// holder is a process that reserves an address.
func holder(t *testing.T, addr string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
	cmd.Env = append(os.Environ(), reserveEnv+"="+addr)
	return cmd
}
