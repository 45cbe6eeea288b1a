package harness

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Environment is where a program ran, for its report.
type Environment struct {
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	CPUs     int    `json:"cpus"`
	Load     string `json:"load_average"`
	// Kernel and Processor are as the system names them, "" where it does not.
	Kernel    string `json:"kernel,omitempty"`
	Processor string `json:"processor,omitempty"`
}

// ThisEnvironment returns where this process runs.
func ThisEnvironment() Environment {
	e := Environment{Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	info, _ := debug.ReadBuildInfo()
	e.Commit, e.Modified = Commit(info)
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		e.Load = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		e.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, after, _ := strings.Cut(string(b), "model name")
		name, _, _ := strings.Cut(after, "\n")
		e.Processor = strings.TrimLeft(name, "\t :")
	}
	return e
}

// Commit returns the commit that info was built from, "" if it was not recorded, and
// whether the tree had uncommitted changes. Info may be nil.
func Commit(info *debug.BuildInfo) (commit string, modified bool) {
	if info == nil {
		return "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return commit, modified
}
