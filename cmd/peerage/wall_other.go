//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
)

// wall needs network namespaces: see wall_linux.go.
type wall struct{}

var errNoWall = errors.New("processes can be cut off from each other, and have disks of their own, on Linux only")

func inNamespacesOfItsOwn(context.Context, []string, bool, io.Writer, io.Writer) (int, error) {
	return 0, errNoWall
}

func newWall(context.Context, string, int) (*wall, error) { return nil, errNoWall }

func (*wall) breakPaths(context.Context, breakage, []path) error { return errNoWall }
func (*wall) unbreak(context.Context) error                      { return errNoWall }
func (*wall) heal(context.Context) (int, error)                  { return 0, errNoWall }
func (*wall) behind(*exec.Cmd, int)                              {}

func placeHost(int) string { return "127.0.0.1" }

func privateMounts(string) error  { return errNoWall }
func mountDisk(string, int) error { return errNoWall }
func unmountDisk(string) error    { return errNoWall }
