// Package evict selects the instances that a node ends when it has more of them than its
// limit: the least recently used, or by W-TinyLFU (Einziger, Friedman, Manes: TinyLFU, ACM
// TOS 2017).
//
// A Policy is plain data without locks or clocks, and belongs to one owner. Only New and
// Resize allocate.
package evict
