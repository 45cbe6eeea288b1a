//go:build !linux

package transport

const refusalsAreTold = false
