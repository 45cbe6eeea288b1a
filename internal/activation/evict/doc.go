// Package evict decides which instances a node gives up when it has more of them
// than it may keep: least or most recently used, segmented LRU, least frequently
// used, and W-TinyLFU (Einziger, Friedman, Manes: TinyLFU, ACM TOS 2017), the
// strategies of Pekko's passivation.
//
// All is plain data without locks or clocks: one Policy belongs to one owner. No
// call allocates but New, Resize, and the first use of a frequency by LFU.
package evict
