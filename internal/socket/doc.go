// Package socket holds the system calls on TCP sockets that package net does not offer: the
// options of dialled connections, the number of unread bytes, and a write that never waits.
package socket
