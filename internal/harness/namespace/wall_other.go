//go:build !linux

package namespace

import (
	"context"
	"errors"
	"io"
	"os/exec"
)

// Wall needs network namespaces: see wall_linux.go.
type Wall struct{}

var errNoWall = errors.New("processes can be cut off from each other, slowed, and have disks of their own, on Linux only")

// RunApart fails.
func RunApart(context.Context, []string, []string, bool, io.Writer, io.Writer) (int, error) {
	return 0, errNoWall
}

// NewWall fails.
func NewWall(context.Context, string, int) (*Wall, error) { return nil, errNoWall }

// BreakPaths and the other methods are never called: there is no Wall.
func (*Wall) BreakPaths(context.Context, Breakage, []Path) error { return errNoWall }
func (*Wall) Unbreak(context.Context) error                      { return errNoWall }
func (*Wall) Heal(context.Context) (int, error)                  { return 0, errNoWall }
func (*Wall) Behind(*exec.Cmd, int)                              {}

// Delaying needs TUN devices: see delay_linux.go.
type Delaying struct{}

// DelayPaths fails, so the other methods are never called: there is no Delaying.
func (*Wall) DelayPaths(context.Context, Delay, []Path) (*Delaying, error) { return nil, errNoWall }
func (*Delaying) RoundTrip(context.Context) error                          { return errNoWall }
func (*Delaying) End(context.Context) (Delayed, error)                     { return Delayed{}, errNoWall }

// PlaceHost is where all processes listen without a wall.
func PlaceHost(int) string { return "127.0.0.1" }

// PrivateMounts, MountDisk and UnmountDisk fail.
func PrivateMounts(string) error  { return errNoWall }
func MountDisk(string, int) error { return errNoWall }
func UnmountDisk(string) error    { return errNoWall }

// Quota needs control groups: see quota_linux.go.
type Quota struct{}

// LimitCPU fails.
func LimitCPU(int, float64) (*Quota, error) { return nil, errNoWall }

// Throttled and Release are never called: there is no Quota.
func (*Quota) Throttled() (int, error) { return 0, errNoWall }
func (*Quota) Release() error          { return errNoWall }
