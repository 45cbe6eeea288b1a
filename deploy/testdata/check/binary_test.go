package check

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// buildStatic builds the binary with the line of the Dockerfile.
func buildStatic(t *testing.T) string {
	t.Helper()
	dockerfile, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(dockerfile), "RUN CGO_ENABLED=0 ")
	line, _, _ := strings.Cut(rest, " && ")
	binary := filepath.Join(t.TempDir(), "peerage")
	if !strings.Contains(line, "-o /peerage ./cmd/peerage") {
		t.Fatalf("the Dockerfile builds by %q", line)
	}
	cmd := exec.Command("sh", "-c", strings.Replace(line, "-o /peerage", "-o "+binary, 1))
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return binary
}

// The image has nothing but the binary: it must need no interpreter and no library, and
// accept the arguments of the pods and of the unit.
func TestTheBinaryOfTheImage(t *testing.T) {
	binary := buildStatic(t)
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || len(libraries) > 0 {
			t.Errorf("it is linked dynamically, with %v", libraries)
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("the binary runs on Linux only")
	}
	unit, err := os.ReadFile("../../systemd/peerage.service")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(unit), "ExecStart=/usr/local/bin/peerage ")
	line, _, _ := strings.Cut(rest, "\n")
	for what, args := range map[string][]string{
		"statefulset": arguments(t, "../../kubernetes/statefulset"),
		"deployment":  arguments(t, "../../kubernetes/deployment"),
		"unit":        strings.Fields(line),
	} {
		// Flags are read before help is printed, so an unknown one is an error.
		if out, err := exec.Command(binary, append(args, "--help")...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %v\n%s", what, args, err, out)
		}
	}
	verifyUnit(t, string(unit), binary)
}

// verifyUnit lets systemd read the unit, with the path of a binary that exists.
func verifyUnit(t *testing.T, unit, binary string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit is not verified")
		return
	}
	path := filepath.Join(t.TempDir(), "peerage.service")
	if err := os.WriteFile(path, []byte(strings.Replace(unit, "/usr/local/bin/peerage", binary, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	// Warnings do not change its exit code, so any output fails. Man pages are not needed.
	out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
