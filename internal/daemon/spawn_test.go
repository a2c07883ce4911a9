package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// script writes an executable script into a directory.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return path
}

// A spawned job inherits the environment and the directory of the spawning program, with the changes that the request
// wants. It is freed when its last process has ended.
func TestSpawn(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	script(t, elsewhere, "child", "#!/bin/sh\necho $PARENT $CHILD $* $(pwd) $PMIX_RANK\n")
	s := startTest(t, []App{{
		NPEs: 1, Path: "/bin/sh", Name: "sh", Args: []string{"-c", "exec sleep 1000"}, Dir: dir,
		Env: append(os.Environ(), "PARENT=from the parent", "PATH="+elsewhere+":"+os.Getenv("PATH")), Procs: 1,
	}})
	for name, x := range map[string]struct {
		spawn func()
		want  string
	}{
		"PMIx": {func() {
			pmixHost{s.clients}.Spawn(&server.SpawnRequest{From: s.name(0), Apps: []server.SpawnApp{{
				Cmd: "child", Args: []string{"child", "a", "b"}, Env: []string{"CHILD=own", "OMPI_MCA_orte_ess_num_procs=9"}, MaxProcs: 2,
			}}})
		}, "from the parent own a b " + dir},
		"PMI-1": {func() {
			pmiHost{s.clients}.Spawn(&pmi1.SpawnRequest{From: s.name(0), Apps: []pmi1.SpawnApp{{
				Cmd: "child", Args: []string{"c"}, MaxProcs: 2, Infos: []pmi1.Pair{{Key: "wdir", Value: elsewhere}, {Key: "path", Value: elsewhere}},
			}}})
		}, "from the parent c " + elsewhere},
	} {
		x.spawn()
		e := s.next(Spawned)
		if e.NPEs != 2 || e.Job == 0 {
			t.Errorf("%s: event %+v, want a job of 2 PEs", name, e)
		}
		j := s.table.job(e.Job)
		for range 2 {
			if e := s.next(Exited); e.Job != j.number || e.End.Code != 0 {
				t.Errorf("%s: event %+v, want a PE of job %d that has ended well", name, e, j.number)
			}
		}
		got := []string{s.line(), s.line()}
		slices.Sort(got)
		for pe, line := range got {
			id := ID{j.number, pe}.String()
			if want := id + ": " + x.want + " " + id[len(id)-1:]; line != want {
				t.Errorf("%s: line %q, want %q", name, line, want)
			}
		}
		for begin := time.Now(); s.table.job(j.number) != nil; time.Sleep(time.Millisecond) {
			if time.Since(begin) > deadline {
				t.Fatalf("%s: job %d still exists", name, j.number)
			}
		}
		if j.memory.exists() || s.watch.tagged(j.procs[0].tag) != nil {
			t.Errorf("%s: the job is over, and its memory is still held or the watch still has it", name)
		}
	}
}

// A job that cannot be started leaves nothing behind. The caller and the user are told why.
func TestSpawnFails(t *testing.T) {
	dir := t.TempDir()
	broken := script(t, dir, "broken", "no program\n")
	s := startTest(t, []App{shell(1, "exec sleep 1000")})
	app := func(cmd string, n int) spawnApp { return spawnApp{cmd: cmd, n: n} }
	for want, apps := range map[string][]spawnApp{
		"at least one":                      {},
		"number of processes 0":             {app("sh", 0)},
		"number of processes 9":             {app("sh", 9)},
		`program "no such program" is not`:  {app("no such program", 1)},
		"program: ":                         {app("./no such program", 1)},
		`program ""`:                        {app("", 1)},
		`working directory "no such dir"`:   {{cmd: "sh", n: 1, dir: "no such dir"}},
		"a text without a line that begins": {{cmd: "sleep", args: []string{"sleep", "1000"}, n: 2}, app(broken, 1)},
	} {
		nspace, err := s.spawner.spawn(&spawning{from: s.name(0), apps: apps})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("spawned %q: %v, want an error with %q", nspace, err, want)
		}
		s.wantNotice("spawn for PE 0")
	}
	e := s.next(Spawned) // only the last request got that far
	if d := s.next(Dropped); d.Job != e.Job {
		t.Errorf("job %d is dropped, want job %d", d.Job, e.Job)
	}
	for begin := time.Now(); s.table.job(e.Job) != nil; time.Sleep(time.Millisecond) {
		if time.Since(begin) > deadline {
			t.Fatal("the job that could not be started still exists")
		}
	}
	s.Refuse(false)
	if _, err := s.spawner.spawn(&spawning{from: pmix.Proc{Nspace: "tool"}, apps: []spawnApp{app("sh", 1)}}); err != errEnding { //nolint:errorlint // spawn returns it unwrapped
		t.Errorf("spawned while the job ends: %v, want %v", err, errEnding)
	}
	s.wantNotice("spawn for tool")
}
