package harness

import (
	"os"
	"os/exec"
	"path/filepath"
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
	if e.Commit, e.Modified = Commit(info); e.Commit == "" && StartedByGoRun() {
		e.Commit, e.Modified = commitOf(".")
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		const averages = 3 // of 1, 5 and 15 minutes; counts of processes follow
		fields := strings.Fields(string(b))
		e.Load = strings.Join(fields[:min(averages, len(fields))], " ")
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

// StartedByGoRun reports whether `go run` has started this program.
func StartedByGoRun() bool {
	self, err := os.Executable()
	return err == nil && strings.Contains(filepath.ToSlash(self), "/go-build")
}

// modulePath is that of this module, as the first line of its go.mod has it.
const modulePath = "module github.com/peerage-go/peerage"

// commitOf returns the commit of the checkout of this module around a directory, "" without one,
// and whether it has uncommitted changes. A program that `go run` builds does not record it.
func commitOf(dir string) (commit string, modified bool) {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	mod, err := os.ReadFile(filepath.Join(git("rev-parse", "--show-toplevel"), "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), modulePath+"\n") {
		return "", false
	}
	return git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no") != ""
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
