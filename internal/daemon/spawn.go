package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// spawning asks for a further job.
type spawning struct {
	from   pmix.Proc
	apps   []spawnApp
	preput []pmi1.Pair // what PMI-1 clients find stored
}

// spawnApp is a program of the job.
type spawnApp struct {
	cmd   string      // searched if it has no slash
	args  []string    // its name and its arguments
	env   []string    // in addition to the environment that the spawner got
	dir   string      // working directory; empty: that which the spawner got
	path  string      // where cmd is searched; empty: as PATH of its environment says
	n     int         // PEs
	infos []pmix.Info // PMIx directives
}

// errEnding refuses a further job.
var errEnding = errors.New("the job that it would belong to is ending")

// spawn starts a further job and returns its namespace. When it fails, nothing
// of that job is left.
func (s *Step) spawn(r *spawning) (nspace string, err error) {
	defer func() {
		if err != nil {
			s.notice("spawn for %s: %v", s.called(r.from), err)
		}
	}()
	apps, err := s.resolve(r, s.spawner(r.from))
	if err != nil {
		return "", err
	}
	j := newJob(apps)
	if err := s.admit(j); err != nil {
		return "", err
	}
	defer s.spawns.Done()
	err = s.introduce(j, r)
	if err == nil {
		err = s.launch(j)
	}
	if err != nil {
		s.drop(j)
		return "", err
	}
	return j.nspace, nil
}

// spawner returns the program whose environment and directory a further job
// inherits: that of the PE that asks, or of PE 0 if a tool does.
func (s *Step) spawner(from pmix.Proc) *App {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.named(from); p != nil {
		return &p.job.apps[p.job.app(p.id.PE)]
	}
	return &s.jobs[0].apps[0]
}

// called returns what a PE is called in messages.
func (s *Step) called(p pmix.Proc) string {
	if j := s.jobOf(p.Nspace); j != nil {
		return "PE " + ID{j.number, int(p.Rank)}.String()
	}
	return p.String()
}

// admit reports a job that is going to be started, unless none may be any more.
// The caller calls s.spawns.Done when that is done.
func (s *Step) admit(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.killed {
		return errEnding
	}
	s.spawns.Add(1)
	s.enlist(j)
	s.emit(Event{Kind: Spawned, ID: ID{Job: j.number}, NPEs: j.npes()})
	return nil
}

// Refuse lets no further job begin.
func (s *Step) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
}

// introduce makes what a spawned job needs before its processes start.
func (s *Step) introduce(j *job, r *spawning) error {
	if err := j.makeHeaps(s.cfg.HeapSize); err != nil {
		return err
	}
	if err := s.pmix.AddJob(s.describe(j), r.from); err != nil {
		return err
	}
	d := s.describePMI(j)
	d.Preput = r.preput
	return s.pmi.AddJob(d)
}

// drop ends a job that could not be started as a whole, and frees it.
func (s *Step) drop(j *job) {
	s.mu.Lock()
	j.failed = true
	started := j.started()
	for _, p := range started {
		p.signal(syscall.SIGKILL)
	}
	s.mu.Unlock()
	for _, p := range started {
		within(time.Now().Add(closeAtMost), func() { <-p.reaped })
	}
	s.retiring.Go(func() { s.retire(j) })
	s.emit(Event{Kind: Dropped, ID: ID{Job: j.number}})
}

// resolve turns the programs of a request into what the step runs.
func (s *Step) resolve(r *spawning, base *App) (apps []App, err error) {
	n := 0
	for i := range r.apps {
		if n += r.apps[i].n; r.apps[i].n < 1 || n > s.cfg.MostPEs {
			return nil, fmt.Errorf("%s: number of processes %d, want 1 or more, and at most %d in a job", r.apps[i].cmd, r.apps[i].n, s.cfg.MostPEs)
		}
	}
	if n == 0 {
		return nil, errors.New("no program, want at least one")
	}
	for i := range r.apps {
		app, err := r.apps[i].resolve(base)
		if err != nil {
			return nil, err
		}
		if base.Procs > 0 {
			app.Procs = max(1, runtime.NumCPU()/n)
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// resolve finds the program and completes its environment by that of the
// program that spawns it.
func (a *spawnApp) resolve(base *App) (App, error) {
	app := App{NPEs: a.n, Name: a.cmd, Env: slices.Clone(base.Env), Dir: base.Dir}
	if len(a.args) > 0 {
		app.Name, app.Args = a.args[0], a.args[1:]
	}
	for _, kv := range a.env {
		if !ofParent(kv) {
			app.Env = append(app.Env, kv)
		}
	}
	app.Env = changed(app.Env, a.infos)
	if a.dir != "" {
		app.Dir = a.dir
		if !filepath.IsAbs(app.Dir) {
			app.Dir = filepath.Join(base.Dir, app.Dir)
		}
		if st, err := os.Stat(app.Dir); err != nil || !st.IsDir() {
			return App{}, fmt.Errorf("%s: working directory %q, want a directory", a.cmd, a.dir)
		}
	}
	var err error
	app.Path, err = a.find(&app)
	return app, err
}

// ofParent says whether a setting that Open MPI passes on to what it spawns is
// of the spawning job alone.
func ofParent(kv string) bool { return strings.HasPrefix(kv, "OMPI_MCA_orte_ess_num_procs=") }

// find returns the program's file: what has no slash is searched in PATH and
// then in the working directory, as the launchers of MPI do.
func (a *spawnApp) find(app *App) (string, error) {
	if a.cmd == "" {
		return "", errors.New(`program "", want a name`)
	}
	if strings.Contains(a.cmd, "/") {
		return executable(app.Dir, a.cmd)
	}
	path := a.path
	if path == "" {
		path, _ = lastOf(app.Env, "PATH")
	}
	for _, dir := range append(filepath.SplitList(path), ".") {
		if found, err := executable(app.Dir, filepath.Join(dir, a.cmd)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("program %q is not in PATH (%s) and not in the working directory", a.cmd, path)
}

// executable returns the absolute path of a program, seen from a directory.
func executable(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("program: %w", err)
	}
	return path, nil
}

// Spawn starts a job for a PMIx client.
func (h host) Spawn(r *server.SpawnRequest) {
	req := &spawning{from: r.From}
	for _, a := range r.Apps {
		req.apps = append(req.apps, spawnApp{
			cmd: a.Cmd, args: a.Args, env: a.Env, dir: a.Dir, n: a.MaxProcs, infos: slices.Concat(r.Infos, a.Infos),
		})
	}
	go func() {
		nspace, err := h.s.spawn(req)
		status := pmix.StatusSuccess
		if err != nil {
			status = pmix.StatusErrProcFailedToStart
		}
		h.s.pmix.SpawnDone(r.ID, nspace, status)
	}()
}

// Spawn starts a job for a PMI-1 client.
func (h pmiHost) Spawn(r *pmi1.SpawnRequest) {
	req := &spawning{from: r.From, preput: r.Preput}
	for _, a := range r.Apps {
		app := spawnApp{cmd: a.Cmd, args: append([]string{a.Cmd}, a.Args...), n: a.MaxProcs}
		for _, info := range a.Infos {
			switch info.Key {
			case "wdir":
				app.dir = info.Value
			case "path":
				app.path = info.Value
			}
		}
		req.apps = append(req.apps, app)
	}
	go func() {
		_, err := h.s.spawn(req)
		h.s.pmi.SpawnDone(r.ID, err)
	}()
}
