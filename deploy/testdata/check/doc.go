// Package check validates the files of folder deploy. It is a module of its own, so that its
// dependencies stay out of the module that services import.
package check
