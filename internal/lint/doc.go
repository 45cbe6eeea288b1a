// Package lint holds the house rules as tests: which way imports run, what a
// core may not do, how long files and functions may be, and what a guest in
// someone's process never does. It has no code outside its tests.
package lint
