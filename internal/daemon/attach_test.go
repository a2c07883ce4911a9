package daemon

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// sleepers returns the settings of a step with n PEs that sleep.
func sleepers(t *testing.T, n int, change ...func(*settings)) settings {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	c := settings{
		Config{Apps: []App{{NPEs: n, Path: sleep, Name: "sleep", Args: []string{"1000"}, Env: os.Environ()}}, HeapSize: 1 << 20},
		Hooks{Output: func(ID, Stream, []byte) {}, Logger: zerolog.Nop()},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// start starts a step with these settings.
func (c settings) start() (*Step, error) { return Start(c.Config, c.Hooks) }

// startSleepers starts a step with n PEs that sleep.
func startSleepers(t *testing.T, n int, change ...func(*settings)) *Step {
	t.Helper()
	s, err := sleepers(t, n, change...).start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a packet to the attach socket and returns the answer.
func ask(t *testing.T, s *Step, packet []byte) (wire.AttachReply, int) {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.attach.address(), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := xunix.SendFDs(conn, packet, nil); err != nil {
		t.Fatal(err)
	}
	answer, fds, err := xunix.RecvFDs(conn, wire.MaxPacket, wire.MaxFDs)
	if err != nil {
		t.Fatal(err)
	}
	xunix.CloseFDs(fds)
	r, err := wire.ParseAttachReply(answer)
	if err != nil {
		t.Fatal(err)
	}
	return r, len(fds)
}

// Only processes of the job's PEs get the descriptors of heaps. This test's process is their parent and no PE.
func TestStrangerGetsNoHeap(t *testing.T) {
	s := startSleepers(t, 2)
	for want, req := range map[string]wire.AttachRequest{
		"is not of PE 1":  {Nspace: s.table.jobs[0].nspace, PE: 1},
		"job \"another\"": {Nspace: "another", PE: 1},
		"below 2":         {Nspace: s.table.jobs[0].nspace, PE: 2},
		"first segment 9": {Nspace: s.table.jobs[0].nspace, PE: 0, First: 9},
		"of kind 7":       {Nspace: s.table.jobs[0].nspace, PE: 0, Kind: 7},
		"is not of PE 0":  {Nspace: s.table.jobs[0].nspace, PE: 0, Kind: wire.AskPeers, Job: 1},
	} {
		r, fds := ask(t, s, req.Append(nil))
		if fds != 0 || !strings.Contains(r.Err, want) {
			t.Errorf("request %+v: %d descriptors, error %q, want one with %q", req, fds, r.Err, want)
		}
	}
	if r, fds := ask(t, s, []byte("garbage that is long enough for a request")); fds != 0 || !strings.Contains(r.Err, "begins with") {
		t.Errorf("garbage: %d descriptors, error %q, want none and an error about the first bytes", fds, r.Err)
	}
}

// A PE's processes are the one that the step started and its descendants.
func TestDescends(t *testing.T) {
	s := startSleepers(t, 2)
	for pe := range 2 {
		mine, others := s.table.jobs[0].procs[pe], s.table.jobs[0].procs[1-pe]
		if !mine.descends(mine.pid) {
			t.Errorf("PE %d is not a descendant of itself", pe)
		}
		if mine.descends(others.pid) {
			t.Errorf("PE %d counts as a descendant of PE %d", 1-pe, pe)
		}
		name := s.table.jobs[0].nspace
		env := environOf(mine.pid)
		if !env.hasPE(name, pe) || env.hasPE(name, 1-pe) || !env.hasAnyJob([]string{"other", name}) || env.hasAnyJob([]string{name + "-1"}) {
			t.Errorf("PE %d is not recognized by its environment", pe)
		}
	}
	if first := s.table.jobs[0].procs[0]; first.descends(1) || first.descends(os.Getppid()) {
		t.Error("a process outside the job counts as a PE")
	}
}
