package main

import (
	"os"
	"strconv"
	"strings"
)

// cpuTime is the time that all cores have spent, and spent idle, in ticks.
type cpuTime struct{ all, idle float64 }

// readCPU reads /proc/stat; zero where there is none.
func readCPU() cpuTime {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTime{}
	}
	return parseCPU(string(text))
}

// parseCPU takes the first line: user nice system idle iowait irq softirq steal; guest
// time, which follows, is in user's already.
func parseCPU(text string) cpuTime {
	line, _, _ := strings.Cut(text, "\n")
	var c cpuTime
	for i, f := range strings.Fields(line) {
		x, err := strconv.ParseFloat(f, 64)
		if i == 0 || i > 8 || err != nil {
			continue
		}
		c.all += x
		if i == 4 || i == 5 {
			c.idle += x
		}
	}
	return c
}

// busySince returns the share of the time since then that was not idle.
func (c cpuTime) busySince(then cpuTime) float64 {
	if c.all <= then.all {
		return 0
	}
	return 1 - (c.idle-then.idle)/(c.all-then.all)
}

// loadAverages are those of one minute, as they were read.
type loadAverages []float64

func (l *loadAverages) sample() {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(text), " ")
	if x, err := strconv.ParseFloat(first, 64); err == nil {
		*l = append(*l, x)
	}
}

func (l loadAverages) latestLoad() float64 {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1]
}

func (l loadAverages) mean() float64 {
	sum := 0.0
	for _, x := range l {
		sum += x
	}
	return sum / max(float64(len(l)), 1)
}

func (l loadAverages) most() float64 {
	most := 0.0
	for _, x := range l {
		most = max(most, x)
	}
	return most
}
