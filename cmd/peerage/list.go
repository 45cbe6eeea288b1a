package main

import (
	"errors"
	"strings"
)

// list is a flag that may be given several times, or with commas.
type list []string

// String returns the values with commas between them.
func (l *list) String() string { return strings.Join(*l, ",") }

// Type is what the help calls a value.
func (l *list) Type() string { return "list" }

// Set adds values to those that the list has.
func (l *list) Set(v string) error {
	for _, part := range strings.Split(v, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return errors.New("is empty")
		} else {
			*l = append(*l, part)
		}
	}
	return nil
}
