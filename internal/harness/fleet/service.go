package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
)

// Service is a program of a user that a fleet runs in place of nodes. Its processes report
// nothing: a fleet asks them over HTTP.
type Service struct {
	// Command is the program with its arguments, in which {name}, {listen}, {http}, {join} and
	// {dir} are replaced.
	Command []string
	// Ready is the path that answers with 200 when a process is ready.
	Ready string
	// HTTP are the addresses of the places, set by Up.
	HTTP []string
}

// readyPatience bounds one question whether a process is ready.
const readyPatience = time.Second

// startService starts a process of a service at a place.
func (f *Fleet) startService(i int, listen string, contacts []string) (*Process, error) {
	p := &Process{
		Name: PlaceName(i), Ids: map[uint64]bool{}, ready: make(chan struct{}), Gone: make(chan struct{}),
		readyURL: "http://" + f.Service.HTTP[i] + f.Service.Ready,
	}
	p.last = harness.Report{Name: p.Name, Listen: listen, HTTP: f.Service.HTTP[i]}
	fill := strings.NewReplacer("{name}", p.Name, "{listen}", listen, "{http}", p.last.HTTP, "{join}", strings.Join(contacts, ","), "{dir}", f.DataDir(i))
	var args []string
	for _, a := range f.Service.Command {
		args = append(args, fill.Replace(a))
	}
	p.cmd = exec.Command(args[0], args[1:]...)
	if err := p.keepLog(f.fileOf(i) + LogExt); err != nil {
		return nil, err
	}
	p.cmd.Stdout = p.cmd.Stderr
	p.cmd.SysProcAttr = serviceAttr()
	if f.Wall != nil {
		f.Wall.Behind(p.cmd, i)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	close(p.ready) // it listens sometime; Settle waits for that
	go p.follow(strings.NewReader(""))
	return p, nil
}

// IsReady asks a process of a service whether it is ready.
func (p *Process) IsReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	_, err := harness.Fetch(ctx, http.MethodGet, p.readyURL)
	return err
}

// Answers reports whether a process answers HTTP, whatever the answer, within d.
func (p *Process) Answers(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.readyURL, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil
}

// settleService waits until all processes are ready.
func (f *Fleet) settleService(ctx context.Context) error {
	for _, i := range f.Living() {
		p := f.Now[i]
		for {
			err := p.IsReady(ctx)
			if err == nil {
				break
			}
			if p.waitedFor() {
				return p.Failure()
			}
			if harness.Pause(ctx, 10*time.Millisecond) != nil {
				return fmt.Errorf("waiting until %s is ready: %w\n%s", p.Name, err, p.stderr.String())
			}
		}
	}
	return nil
}

// upService starts all processes of a service and waits until they are ready.
func (f *Fleet) upService(ctx context.Context, hosts []string) error {
	var err error
	if f.Service.HTTP, err = f.reserve(hosts...); err != nil {
		return err
	}
	for i, addr := range f.List {
		if _, err := f.Start(i, addr); err != nil {
			return err
		}
	}
	return f.Settle(ctx)
}

// stopService asks a process of a service to end by SIGTERM, and kills it after d. It fails if
// it had to.
func (p *Process) stopService(d time.Duration) error {
	if err := terminate(p.cmd.Process); err != nil && !p.waitedFor() {
		return err
	}
	select {
	case <-p.Gone:
		return nil
	case <-time.After(d):
		err := fmt.Errorf("%s had not ended %v after SIGTERM\n%s", p.Name, d, p.stderr.String())
		err = errors.Join(err, p.cmd.Process.Kill())
		<-p.Gone
		return err
	}
}
