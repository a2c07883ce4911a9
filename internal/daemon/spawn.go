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

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/symheap"
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

// spawner starts the jobs that PEs and tools ask for. It needs no lock but that of the table.
type spawner struct {
	cfg        *Config
	table      *table
	events     *announcer
	servers    *servers
	starter    *starter
	ends       *ends
	background *background
	reporter   *reporter
	private    *private
	root       *rootLine
	agent      *nodeAgent
}

// spawn starts a further job and returns its namespace. When it fails, nothing
// of that job is left.
func (sp *spawner) spawn(r *spawning) (nspace string, err error) {
	defer func() {
		if err != nil {
			sp.reporter.notice("spawn for %s: %v", sp.table.nameOf(r.from), err)
		}
	}()
	programs, err := sp.resolveApps(r, sp.parentOf(r.from))
	if err != nil {
		return "", err
	}
	if sp.cfg.Share.spans() {
		number, err := sp.root.ask(SpawnRequest{Node: sp.cfg.Share.Node, From: r.from, Apps: programs, Preput: r.preput})
		return wire.JobName(sp.table.name, number), err
	}
	apps, err := findAll(programs)
	if err != nil {
		return "", err
	}
	j := newLocalJob(apps, nil)
	if err := sp.admitJob(j); err != nil {
		return "", err
	}
	defer sp.background.spawns.Done()
	err = sp.prepareJob(j, r)
	if err == nil {
		err = sp.starter.launch(j)
	}
	if err != nil {
		sp.ends.dropJob(j)
		return "", err
	}
	return j.nspace, nil
}

// parentOf returns the program whose environment and directory a further job
// inherits: that of the PE that asks, or of PE 0 if a tool does.
func (sp *spawner) parentOf(from pmix.Proc) *App {
	sp.table.mu.Lock()
	defer sp.table.mu.Unlock()
	if p := sp.table.named(from); p != nil {
		return p.app()
	}
	return &sp.table.jobs[0].apps[0]
}

// admitJob reports a job that is going to be started, unless none may be any more.
// The caller calls spawns.Done when that is done. Close refuses jobs first and waits for spawns then: so it waits for
// each job that was admitted.
func (sp *spawner) admitJob(j *localJob) error {
	sp.table.mu.Lock()
	if sp.table.refusing || sp.table.killed {
		sp.table.mu.Unlock()
		return errEnding
	}
	sp.background.spawns.Add(1)
	sp.table.enlist(j)
	sp.events.append(announcement{event: &Event{Kind: Spawned, ID: ID{Job: j.number}, NPEs: j.npes()}})
	sp.table.mu.Unlock()
	sp.events.deliver()
	return nil
}

// prepareJob makes what a spawned job needs before its processes start.
func (sp *spawner) prepareJob(j *localJob, r *spawning) error {
	var options []symheap.Option
	isGuest := j.isGuestOf(sp.agent)
	if isGuest {
		options = sp.agent.segmentOptions()
	}
	if err := j.memory.create(j.key, j.npes(), j.near, sp.cfg.HeapSize, options...); err != nil {
		return err
	}
	if isGuest {
		if err := sp.agent.addGuests(j); err != nil {
			return err
		}
	}
	return sp.servers.addJob(j, sp.private, r.from, r.preput)
}

// resolveApps turns the programs of a request into what nodes can find and run.
func (sp *spawner) resolveApps(r *spawning, base *App) (programs []SpawnApp, err error) {
	most, in := sp.cfg.MostPEs, "a job"
	if sp.cfg.Share.spans() {
		most, in = mostSpawned, "a request" // the root knows how many fit on its nodes
	}
	n := 0
	for i := range r.apps {
		if n += r.apps[i].n; r.apps[i].n < 1 || n > most {
			return nil, fmt.Errorf("%s: number of processes %d, want 1 or more, and at most %d in %s", r.apps[i].cmd, r.apps[i].n, most, in)
		}
	}
	if n == 0 {
		return nil, errors.New("no program, want at least one")
	}
	for i := range r.apps {
		a := r.apps[i].resolveApp(base)
		if sp.cfg.Share.spans() {
			if err := a.Placing.readFiles(base.Dir); err != nil {
				return nil, err
			}
		}
		if base.Procs > 0 {
			a.Procs = max(1, runtime.NumCPU()/n)
		}
		programs = append(programs, a)
	}
	return programs, nil
}

// resolveApp completes a program by the environment and the directory of the program that spawns it.
func (a *spawnApp) resolveApp(base *App) SpawnApp {
	app := App{NPEs: a.n, Program: a.cmd, Name: a.cmd, Env: without(base.Env, envvar.Parents), Dir: base.Dir}
	if len(a.args) > 0 {
		app.Name, app.Args = a.args[0], a.args[1:]
	}
	for _, kv := range a.env {
		if !isOfParent(kv) {
			app.Env = append(app.Env, kv)
		}
	}
	app.Env = applyDirectives(app.Env, a.infos)
	if a.dir != "" {
		app.Dir = a.dir
		if !filepath.IsAbs(app.Dir) {
			app.Dir = filepath.Join(base.Dir, app.Dir)
		}
	}
	return SpawnApp{App: app, Search: a.path, WrittenDir: a.dir, Placing: placingOf(a.infos)}
}

// findAll finds programs on this node.
func findAll(programs []SpawnApp) (apps []App, err error) {
	for i := range programs {
		app, err := programs[i].find()
		if err != nil {
			return nil, err
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// find returns the program with its file on this node, where its working directory has to be, too.
func (a *SpawnApp) find() (App, error) {
	app := a.App
	if a.WrittenDir != "" {
		if st, err := os.Stat(app.Dir); err != nil || !st.IsDir() {
			return App{}, fmt.Errorf("%s: working directory %q, want a directory", app.Program, a.WrittenDir)
		}
	}
	var err error
	app.Path, err = a.findProgram()
	return app, err
}

// isOfParent says whether a setting that Open MPI passes on to what it spawns is
// of the spawning job alone.
func isOfParent(kv string) bool { return strings.HasPrefix(kv, "OMPI_MCA_orte_ess_num_procs=") }

// findProgram returns the program's file: what has no slash is searched in PATH and
// then in the working directory, as the launchers of MPI do.
func (a *SpawnApp) findProgram() (string, error) {
	if a.Program == "" {
		return "", errors.New(`program "", want a name`)
	}
	if strings.Contains(a.Program, "/") {
		return executable(a.Dir, a.Program)
	}
	path := a.Search
	if path == "" {
		path, _ = lastOf(a.Env, "PATH")
	}
	for _, dir := range append(filepath.SplitList(path), ".") {
		if found, err := executable(a.Dir, filepath.Join(dir, a.Program)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("program %q is not in PATH (%s) and not in the working directory", a.Program, path)
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

// spawnByPMIx starts a job for a PMIx client.
func (sp *spawner) spawnByPMIx(r *server.SpawnRequest) {
	req := &spawning{from: r.From}
	for _, a := range r.Apps {
		req.apps = append(req.apps, spawnApp{
			cmd: a.Cmd, args: a.Args, env: a.Env, dir: a.Dir, n: a.MaxProcs, infos: slices.Concat(r.Infos, a.Infos),
		})
	}
	go func() {
		nspace, err := sp.spawn(req)
		status := pmix.StatusSuccess
		if err != nil {
			status = pmix.StatusErrProcFailedToStart
		}
		if errors.Is(err, errNoRoot) {
			status = pmix.StatusErrNotSupported
		}
		sp.servers.pmix.SpawnDone(r.ID, nspace, status)
	}()
}

// placingKeys are the info keys of MPI_Comm_spawn, as clients of PMI-1 pass them on, by which PMIx says the same.
var placingKeys = map[string]string{
	"host": pmix.KeyHost, "hosts": pmix.KeyHost, "add-host": pmix.KeyAddHost, "hostfile": pmix.KeyHostfile,
	"add-hostfile": pmix.KeyAddHostfile, "map_by": pmix.KeyMapBy, "rank_by": pmix.KeyRankBy,
}

// spawnByPMI starts a job for a PMI-1 client.
func (sp *spawner) spawnByPMI(r *pmi1.SpawnRequest) {
	req := &spawning{from: r.From, preput: r.Preput}
	for _, a := range r.Apps {
		app := spawnApp{cmd: a.Cmd, args: append([]string{a.Cmd}, a.Args...), n: a.MaxProcs}
		for _, info := range a.Infos {
			switch info.Key {
			case "wdir":
				app.dir = info.Value
			case "path":
				app.path = info.Value
			case "npernode":
				app.infos = append(app.infos, pmix.Info{Key: pmix.KeyPPR, Value: pmix.StringValue(info.Value + ":node")})
			default:
				if key := placingKeys[info.Key]; key != "" {
					app.infos = append(app.infos, pmix.Info{Key: key, Value: pmix.StringValue(info.Value)})
				}
			}
		}
		req.apps = append(req.apps, app)
	}
	go func() {
		_, err := sp.spawn(req)
		sp.servers.pmi.SpawnDone(r.ID, err)
	}()
}
