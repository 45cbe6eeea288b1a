// Package demo tells a story with processes: all but one are killed, and the last one takes
// over. It shows the story on a terminal and judges it by the records.
package demo
