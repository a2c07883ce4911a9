package client_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

func (h logHost) Control(from codec.Proc, targets []codec.Proc, a server.ControlAction) {
	h.lines <- fmt.Sprintf("%v controls %v %+v", from, targets, a)
}

func TestControl(t *testing.T) {
	w := start(t, 2)
	for _, tt := range []struct {
		action client.Control
		want   string
	}{
		{client.Control{Signal: 12}, "{Signal:12 Kill:false Terminate:false Pause:false Resume:false}"},
		{client.Control{Kill: true}, "{Signal:0 Kill:true Terminate:false Pause:false Resume:false}"},
		{client.Control{Terminate: true, Resume: true}, "{Signal:0 Kill:false Terminate:true Pause:false Resume:true}"},
		{client.Control{Pause: true}, "{Signal:0 Kill:false Terminate:false Pause:true Resume:false}"},
	} {
		if err := w.clients[0].ControlProcs(w.ctx, procs(1), tt.action); err != nil {
			t.Fatal(err)
		}
		if got, want := <-w.logged, "job-1.0 controls [job-1.1] "+tt.want; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := w.clients[0].ControlProcs(w.ctx, nil, client.Control{}); err == nil {
		t.Error("a request without an action was accepted")
	}
}

func TestRegisterCleanup(t *testing.T) {
	w := start(t, 2)
	top := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, inner, kept := write("file"), write("dir/sub/inner"), write("dir/kept")
	what := client.Cleanup{
		Files: []string{file}, Dirs: []string{filepath.Join(top, "dir")}, Recursive: true, Ignore: []string{kept},
	}
	if err := w.clients[0].RegisterCleanup(w.ctx, procs(0), what); err != nil {
		t.Fatal(err)
	}
	var status *client.StatusError
	err := w.clients[0].RegisterCleanup(w.ctx, nil, client.Cleanup{Files: []string{kept}, Ignore: []string{kept}})
	if !errors.As(err, &status) || status.Status != codec.StatusErrConflictingCleanupDirectives {
		t.Errorf("a path both to remove and to ignore: %v", err)
	}
	for _, path := range []string{"relative", "/", "/tmp/a,b", ""} {
		if err := w.clients[0].RegisterCleanup(w.ctx, nil, client.Cleanup{Dirs: []string{path}}); err == nil {
			t.Errorf("path %q was accepted", path)
		}
	}
	w.srv.ProcExited(codec.Proc{Nspace: "job-1", Rank: 0}, server.Exit{})
	if err := w.srv.Close(); err != nil { // Close waits for the removal
		t.Fatal(err)
	}
	for path, want := range map[string]bool{file: false, inner: false, filepath.Dir(inner): false, kept: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it to exist: %v", path, err, want)
		}
	}
}

func TestHeartbeatMonitor(t *testing.T) {
	w := start(t, 2)
	r := newRecorder()
	w.register(t, 1, r, client.HandlerOptions{Name: "alert"}, codec.StatusMonitorHeartbeatAlert)
	c := w.clients[0]
	if err := c.Heartbeats.Watch(w.ctx, client.Watch{}); err == nil {
		t.Error("a monitor without an interval was accepted")
	}
	if err := c.Heartbeats.Watch(w.ctx, client.Watch{ID: "me", Interval: time.Second, Range: codec.RangeNamespace}); err != nil {
		t.Fatal(err)
	}
	if err := c.Heartbeats.Send(w.ctx); err != nil {
		t.Fatal(err)
	}
	r.expect(w.ctx, t, "alert: -109 from job-1.0 about job-1.0")
	if err := c.Heartbeats.Cancel(w.ctx, "other"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("cancel of an unknown monitor: %v, want ErrNotFound", err)
	}
	if err := c.Heartbeats.Cancel(w.ctx, "me"); err != nil {
		t.Error(err)
	}
	if err := c.Finalize(w.ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Heartbeats.Send(w.ctx); !errors.Is(err, client.ErrFinalized) {
		t.Errorf("heartbeat after finalize: %v, want ErrFinalized", err)
	}
}
