package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Under systemd a node reports that it is ready, then that it stops.
func TestNodeReportsToSystemd(t *testing.T) {
	dir, err := os.MkdirTemp("", "peerage") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "node", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "error")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		b := make([]byte, 100)
		n, err := socket.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("systemd received %q, %v, want %s", b[:n], err, want)
		}
		if want == "READY=1" {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
