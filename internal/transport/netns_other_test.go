//go:build !linux

package transport

// netns exists on Linux only.
type netns struct{}

func (*netns) do(f func())                { f() }
func (*netns) dialling(n network) network { return n }
