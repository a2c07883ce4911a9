package server

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// maxSignal is the highest number of a signal that any system has.
const maxSignal = 128

// epilog lists what to remove when a process, or all processes of a namespace, have ended.
type epilog struct {
	paths  []cleanup
	ignore []string
}

// cleanup is a path to remove.
type cleanup struct {
	path      string
	dir       bool
	recursive bool
	emptyOnly bool // remove empty directories only
	leaveTop  bool // keep the directory itself
}

// jobControl serves requests to act on processes: aborts, signals, and what to remove after their end. What it keeps is
// in the state of processes and namespaces.
type jobControl struct {
	*common
	groups  *groups
	errands *errands
	queries *queries
}

// abort asks the host to end processes; no process at all stands for the caller's namespace.
func (ct *jobControl) abort(at caller, r *codec.AbortRequest) {
	procs, err := ct.checkTargets(r.Procs)
	if err != nil {
		ct.refuse(at, codec.StatusErrBadParam, "abort: "+err.Error())
		return
	}
	if len(procs) == 0 {
		ct.abortNamed(at, procs, r)
		return
	}
	ct.askWhoLives(at, procs, func() { ct.abortNamed(at, procs, r) })
}

// abortNamed asks the hosts to end processes. If these are all of the caller's job that have not ended, its own host ends the
// whole job, on all nodes.
func (ct *jobControl) abortNamed(at caller, procs []codec.Proc, r *codec.AbortRequest) {
	if len(procs) == 0 || len(at.space.missingFrom(procs)) == 0 {
		ct.abortNear(at.name, inOneWord(procs, at.name.Nspace), r)
		ct.reply(at, codec.StatusSuccess)
		return
	}
	ct.tellCondemned(at.name, procs, true) // before one of them can end
	ct.abortNear(at.name, procs, r)
	ct.passOn(at, procs, &codec.AbortRequest{Status: r.Status, Message: r.Message, Procs: procs})
}

// inOneWord replaces the names of a namespace by its wildcard, because the host may not know of all ends. It returns nil if
// there are no other names: nil stands for the whole namespace.
func inOneWord(procs []codec.Proc, nspace string) []codec.Proc {
	others := slices.DeleteFunc(slices.Clone(procs), func(name codec.Proc) bool { return name.Nspace == nspace })
	if len(others) == 0 {
		return nil
	}
	return append(others, codec.Proc{Nspace: nspace, Rank: codec.RankWildcard})
}

// abortNear asks the host to end the processes that are on this node.
func (ct *jobControl) abortNear(from codec.Proc, procs []codec.Proc, r *codec.AbortRequest) {
	ct.condemn(from, procs, true)
	ct.emit(action{kind: actAbort, proc: from, procs: procs, status: r.Status, text: r.Message})
}

// condemn marks processes whose end was asked for, so that their ends can be told apart from failures. With aborts,
// from asked for its own end along with others. A wildcard rank stands for a namespace, and no name at all for that of
// from.
func (ct *jobControl) condemn(from codec.Proc, targets []codec.Proc, aborts bool) {
	if len(targets) == 0 {
		targets = []codec.Proc{{Nspace: from.Nspace, Rank: codec.RankWildcard}}
	}
	for _, name := range targets {
		s := ct.spaces[name.Nspace]
		if s == nil {
			continue
		}
		for _, p := range s.procs {
			if !name.Matches(p.name) {
				continue
			}
			if aborts && p.name == from {
				p.aborts = true
			} else {
				p.condemned = true
			}
		}
	}
}

// controlJob notes the paths to clean up, and asks the host to act on processes.
func (ct *jobControl) controlJob(at caller, r *codec.JobControlRequest) {
	targets, err := ct.checkTargets(ct.groups.expandNames(at.process, r.Targets))
	if err != nil {
		ct.refuse(at, codec.StatusErrBadParam, "job control: "+err.Error())
		return
	}
	if len(targets) == 0 {
		targets = []codec.Proc{{Nspace: at.name.Nspace, Rank: codec.RankWildcard}}
	}
	for _, name := range targets {
		if !ct.mayControl(at.process, name.Nspace) {
			ct.refuse(at, codec.StatusErrNoPermissions, fmt.Sprintf("job control of %v, want the caller's job or one that it spawned", name))
			return
		}
	}
	acting, status, err := ct.controlNear(at.name, targets, r.Info, true)
	switch {
	case err != nil:
		ct.refuse(at, status, "job control: "+err.Error())
	case status != codec.StatusSuccess || !acting && namesWhole(targets):
		ct.reply(at, status)
	default:
		ct.passOn(at, targets, &codec.JobControlRequest{Targets: targets, Info: r.Info})
	}
}

// namesWhole reports whether all names stand for namespaces. What is to be cleaned up after a namespace lies on the node of
// the process that says so.
func namesWhole(targets []codec.Proc) bool {
	return !slices.ContainsFunc(targets, func(name codec.Proc) bool { return name.Rank != codec.RankWildcard })
}

// controlNear notes the paths to clean up after processes of this node, and asks the host to act on them. Acting is false
// if there is nothing but paths. Asked says that a client of this node has asked: then other nodes learn whose end is
// wanted, before one of them can end.
func (ct *jobControl) controlNear(from codec.Proc, targets []codec.Proc, infos []codec.Info, asked bool) (acting bool, status codec.Status, err error) {
	cleaning, err := readEpilog(infos)
	do, err2 := readAction(infos)
	if err := errors.Join(err, err2); err != nil {
		return false, codec.StatusErrBadParam, err
	}
	acting = do != ControlAction{}
	if !cleaning.empty() {
		if status, err := ct.addEpilog(targets, cleaning); err != nil {
			return acting, status, err
		}
	} else if !acting {
		return false, codec.StatusErrNotSupported, nil
	}
	if acting {
		if do.Kill || do.Terminate {
			ct.condemn(from, targets, false)
			if asked {
				ct.tellCondemned(from, targets, false)
			}
		}
		ct.emit(action{kind: actControl, proc: from, procs: targets, control: do})
	}
	return acting, codec.StatusSuccess, nil
}

// mayControl reports whether a process may act on those of a namespace: its own, one that it spawned, and any namespace
// if it is the user's tool.
func (ct *jobControl) mayControl(p *process, space string) bool {
	return p.name.Nspace == space || p.space.tool || ct.spaces[space].parent == p.name
}

// readAction reads the directives that say what happens to processes.
func readAction(infos []codec.Info) (ControlAction, error) {
	a := ControlAction{
		Kill: codec.Flag(infos, codec.KeyJobCtrlKill), Terminate: codec.Flag(infos, codec.KeyJobCtrlTerminate),
		Pause: codec.Flag(infos, codec.KeyJobCtrlPause), Resume: codec.Flag(infos, codec.KeyJobCtrlResume),
	}
	if v, found := codec.Find(infos, codec.KeyJobCtrlSignal); found {
		n, ok := v.Uint64()
		if !ok || n == 0 || n > maxSignal {
			return ControlAction{}, fmt.Errorf("%s is %v, want 1 to %d", codec.KeyJobCtrlSignal, v, maxSignal)
		}
		a.Signal = int(n)
	}
	return a, nil
}

// readEpilog reads the directives that say what to remove.
func readEpilog(infos []codec.Info) (epilog, error) {
	var e epilog
	model := cleanup{
		recursive: codec.Flag(infos, codec.KeyCleanupRecursive), emptyOnly: codec.Flag(infos, codec.KeyCleanupEmpty),
		leaveTop: codec.Flag(infos, codec.KeyCleanupLeaveTopdir),
	}
	for _, info := range infos {
		switch info.Key {
		case codec.KeyRegisterCleanup, codec.KeyRegisterCleanupDir, codec.KeyCleanupIgnore:
		default:
			continue
		}
		list, ok := info.Value.Str()
		if !ok {
			return epilog{}, fmt.Errorf("%s is %v, want a string of paths with commas between them", info.Key, info.Value)
		}
		for name := range strings.SplitSeq(list, ",") {
			clean, err := checkPath(name)
			if err != nil {
				return epilog{}, fmt.Errorf("%s: %w", info.Key, err)
			}
			if info.Key == codec.KeyCleanupIgnore {
				e.ignore = append(e.ignore, clean)
				continue
			}
			item := cleanup{path: clean}
			if info.Key == codec.KeyRegisterCleanupDir {
				item = model
				item.path, item.dir = clean, true
			}
			e.paths = append(e.paths, item)
		}
	}
	return e, nil
}

// checkPath checks a path and returns its shortest form.
func checkPath(name string) (string, error) {
	clean := path.Clean(name)
	switch {
	case !path.IsAbs(name) || strings.IndexByte(name, 0) >= 0:
		return "", fmt.Errorf("path %q is relative, want an absolute path", clipped(name))
	case clean == "/":
		return "", fmt.Errorf("path %q is the root, want a path below it", clipped(name))
	case strings.Contains(name+"/", "/../"):
		return "", fmt.Errorf("path %q contains .., want a path without it", clipped(name))
	}
	return clean, nil
}

func (e *epilog) empty() bool { return len(e.paths)+len(e.ignore) == 0 }

// addEpilog notes what to remove when the targets have ended.
func (ct *jobControl) addEpilog(targets []codec.Proc, more epilog) (codec.Status, error) {
	var of []*epilog
	for _, name := range targets {
		if name.Rank == codec.RankWildcard {
			of = append(of, &ct.spaces[name.Nspace].epilog)
		} else if p := ct.find(name); p.local && !p.exited {
			of = append(of, &p.epilog)
		}
	}
	for _, e := range of {
		if len(e.paths)+len(e.ignore)+len(more.paths)+len(more.ignore) > maxRemembered {
			return codec.StatusErrOutOfResource, fmt.Errorf("more than %d paths to clean up", maxRemembered)
		}
		if e.conflicts(&more) || more.conflicts(e) || more.conflicts(&more) {
			return codec.StatusErrConflictingCleanupDirectives, errors.New("a path is to be both removed and ignored")
		}
	}
	for _, e := range of {
		e.merge(&more)
	}
	return codec.StatusSuccess, nil
}

// conflicts reports whether e removes a path that other ignores.
func (e *epilog) conflicts(other *epilog) bool {
	return slices.ContainsFunc(e.paths, func(item cleanup) bool { return slices.Contains(other.ignore, item.path) })
}

// merge adds paths. If two entries name one path, a directive that either of them gives counts.
func (e *epilog) merge(more *epilog) {
	for _, item := range more.paths {
		i := slices.IndexFunc(e.paths, func(old cleanup) bool { return old.path == item.path })
		if i < 0 {
			e.paths = append(e.paths, item)
			continue
		}
		old := &e.paths[i]
		old.dir, old.recursive = old.dir || item.dir, old.recursive || item.recursive
		old.emptyOnly, old.leaveTop = old.emptyOnly || item.emptyOnly, old.leaveTop || item.leaveTop
	}
	for _, name := range more.ignore {
		if !slices.Contains(e.ignore, name) {
			e.ignore = append(e.ignore, name)
		}
	}
}

// cleanUpAfter removes what a process left to remove. After the last process of a namespace on this node, it also
// removes what the namespace left.
func (ct *jobControl) cleanUpAfter(p *process) {
	ct.emitCleanUp(&p.epilog)
	if !slices.ContainsFunc(p.space.procs, func(q *process) bool { return q.local && !q.exited }) {
		ct.emitCleanUp(&p.space.epilog)
	}
}

// emitCleanUp hands an epilog to the driver, once.
func (ct *jobControl) emitCleanUp(e *epilog) {
	if len(e.paths) > 0 {
		ct.emit(action{kind: actCleanUp, epilog: *e})
	}
	*e = epilog{}
}

// cleanUpAll removes everything that is left to remove, because nobody can do so after the server has closed.
func (ct *jobControl) cleanUpAll() {
	for _, name := range sortedKeys(ct.spaces) {
		s := ct.spaces[name]
		for _, p := range s.procs {
			ct.emitCleanUp(&p.epilog)
		}
		ct.emitCleanUp(&s.epilog)
	}
}
