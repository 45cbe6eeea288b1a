// The simcover command measures how many statements of each protocol core the simulator reaches,
// by its runs alone: no test of a core takes part. Run it from the module's root:
//
//	go run ./internal/lint/simcover                  # plays 400 seeds of each campaign
//	go run ./internal/lint/simcover -list            # prints each statement without a reason, too
//	go run ./internal/lint/simcover -profile FILE    # reads a profile in place of playing
//
// unreached.txt has patterns of statements that the simulator does not reach, each with the reason,
// and for each core how many other statements may not be reached. The command exits with 1 if
// there are more. Assertions are compiled in.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// campaigns are the tests of internal/sim that play seeds.
const campaigns = "^Test(Seeds|Orderly|Aimed|Apart|Disks|Clocks|Trouble|Rings|Edges|Requests|Reliable|Replicated|Daemons|Remembered|Weakened)$"

func main() {
	var o options
	flag.StringVar(&o.profile, "profile", "", "profile to read, in place of playing the campaigns")
	flag.IntVar(&o.seeds, "seeds", 400, "number of seeds of each campaign")
	flag.BoolVar(&o.list, "list", false, "print each statement that is not reached and has no reason")
	flag.Parse()
	root, err := filepath.Abs(".")
	if err == nil {
		err = runCommand(os.Stdout, root, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simcover:", err)
		os.Exit(1)
	}
}

type options struct {
	profile string
	seeds   int
	list    bool
}

func runCommand(out io.Writer, root string, o options) error {
	known, err := readReasons(filepath.Join(root, "internal/lint/simcover/unreached.txt"))
	if err != nil {
		return err
	}
	if o.profile == "" {
		tmp, err := os.MkdirTemp("", "simcover")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		o.profile = filepath.Join(tmp, "profile")
		if err := playCampaigns(root, o.profile, o.seeds); err != nil {
			return err
		}
	}
	blocks, err := readProfile(root, o.profile)
	if err != nil {
		return err
	}
	r := newReport(blocks, known)
	r.print(out, o.list)
	return r.checkBounds()
}

// playCampaigns plays the simulator's campaigns and writes a profile of the cores.
func playCampaigns(root, profile string, seeds int) error {
	cmd := exec.Command("go", "test", "-tags", "invariants", "-count=1", "-timeout", "1h", "-run", campaigns,
		"-covermode=set", "-coverpkg=./internal/core/...", "-coverprofile="+profile, "./internal/sim")
	cmd.Dir, cmd.Env = root, append(os.Environ(), fmt.Sprintf("PEERAGE_SEEDS=%d", seeds))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the campaigns failed: %w\n%s", err, strings.TrimSpace(string(text)))
	}
	return nil
}
