package main

// Exit codes of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)
