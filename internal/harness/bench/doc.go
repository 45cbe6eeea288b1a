// Package bench measures nodes beside the raw limits of the machine in the same run.
package bench
