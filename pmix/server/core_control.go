package server

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// maxSignal is the highest number of a signal that any system has.
const maxSignal = 128

// epilog is what is to be removed when a process, or all of a namespace, have ended.
type epilog struct {
	paths  []cleanup
	ignore []string
}

// cleanup is a path to remove.
type cleanup struct {
	path      string
	dir       bool
	recursive bool
	emptyOnly bool // nothing but empty folders
	leaveTop  bool // the folder itself stays
}

// jobControl notes what is to be cleaned up, and asks the host to act on processes.
func (c *core) jobControl(at caller, r *wire.JobControlRequest) {
	targets, err := c.targets(c.expand(at.process, r.Targets))
	if err != nil {
		c.refuse(at, wire.StatusErrBadParam, "job control: "+err.Error())
		return
	}
	if len(targets) == 0 {
		targets = []wire.Proc{{Nspace: at.name.Nspace, Rank: wire.RankWildcard}}
	}
	for _, name := range targets {
		if !c.mayControl(at.process, name.Nspace) {
			c.refuse(at, wire.StatusErrNoPermissions, fmt.Sprintf("job control of %v, want a job of the caller's or one that it spawned", name))
			return
		}
	}
	cleaning, err := readEpilog(r.Info)
	do, err2 := readAction(r.Info)
	if err := errors.Join(err, err2); err != nil {
		c.refuse(at, wire.StatusErrBadParam, "job control: "+err.Error())
		return
	}
	acting := do != ControlAction{}
	if !cleaning.empty() {
		if status, err := c.addEpilog(targets, cleaning); err != nil {
			c.refuse(at, status, "job control: "+err.Error())
			return
		}
	} else if !acting {
		c.reply(at, wire.StatusErrNotSupported)
		return
	}
	if acting {
		if do.Kill || do.Terminate {
			c.condemn(at.process, targets, false)
		}
		c.act(action{kind: actControl, proc: at.name, procs: targets, control: do})
	}
	c.reply(at, wire.StatusSuccess)
}

// mayControl says whether a process may act on those of a namespace: its own, one that it spawned, and any if it is the
// user's tool.
func (c *core) mayControl(p *process, space string) bool {
	return p.name.Nspace == space || p.space.tool || c.spaces[space].parent == p.name
}

// readAction reads what is to happen to processes.
func readAction(infos []wire.Info) (ControlAction, error) {
	a := ControlAction{
		Kill: wire.Flag(infos, wire.KeyJobCtrlKill), Terminate: wire.Flag(infos, wire.KeyJobCtrlTerminate),
		Pause: wire.Flag(infos, wire.KeyJobCtrlPause), Resume: wire.Flag(infos, wire.KeyJobCtrlResume),
	}
	if v, found := wire.Find(infos, wire.KeyJobCtrlSignal); found {
		n, ok := v.Uint64()
		if !ok || n == 0 || n > maxSignal {
			return ControlAction{}, fmt.Errorf("%s is %v, want 1 to %d", wire.KeyJobCtrlSignal, v, maxSignal)
		}
		a.Signal = int(n)
	}
	return a, nil
}

// readEpilog reads what is to be removed.
func readEpilog(infos []wire.Info) (epilog, error) {
	var e epilog
	model := cleanup{
		recursive: wire.Flag(infos, wire.KeyCleanupRecursive), emptyOnly: wire.Flag(infos, wire.KeyCleanupEmpty),
		leaveTop: wire.Flag(infos, wire.KeyCleanupLeaveTopdir),
	}
	for _, info := range infos {
		switch info.Key {
		case wire.KeyRegisterCleanup, wire.KeyRegisterCleanupDir, wire.KeyCleanupIgnore:
		default:
			continue
		}
		list, ok := info.Value.Str()
		if !ok {
			return epilog{}, fmt.Errorf("%s is %v, want paths", info.Key, info.Value)
		}
		for name := range strings.SplitSeq(list, ",") {
			clean, err := checkPath(name)
			if err != nil {
				return epilog{}, fmt.Errorf("%s: %w", info.Key, err)
			}
			if info.Key == wire.KeyCleanupIgnore {
				e.ignore = append(e.ignore, clean)
				continue
			}
			item := cleanup{path: clean}
			if info.Key == wire.KeyRegisterCleanupDir {
				item = model
				item.path, item.dir = clean, true
			}
			e.paths = append(e.paths, item)
		}
	}
	return e, nil
}

// checkPath returns a path without detours.
func checkPath(name string) (string, error) {
	clean := path.Clean(name)
	switch {
	case !path.IsAbs(name) || strings.IndexByte(name, 0) >= 0:
		return "", fmt.Errorf("path %q, want an absolute one", clipped(name))
	case clean == "/":
		return "", fmt.Errorf("path %q, want one below the root", clipped(name))
	case strings.Contains(name+"/", "/../"):
		return "", fmt.Errorf("path %q, want one without steps upwards", clipped(name))
	}
	return clean, nil
}

func (e *epilog) empty() bool { return len(e.paths)+len(e.ignore) == 0 }

// addEpilog notes what is to be removed when the targets have ended.
func (c *core) addEpilog(targets []wire.Proc, more epilog) (wire.Status, error) {
	var of []*epilog
	for _, name := range targets {
		if name.Rank == wire.RankWildcard {
			of = append(of, &c.spaces[name.Nspace].epilog)
		} else if p := c.find(name); p.local && !p.exited {
			of = append(of, &p.epilog)
		}
	}
	for _, e := range of {
		if len(e.paths)+len(e.ignore)+len(more.paths)+len(more.ignore) > maxRemembered {
			return wire.StatusErrOutOfResource, fmt.Errorf("more than %d paths to clean up", maxRemembered)
		}
		if e.conflicts(&more) || more.conflicts(e) || more.conflicts(&more) {
			return wire.StatusErrConflictingCleanupDirectives, errors.New("a path is to be both removed and ignored")
		}
	}
	for _, e := range of {
		e.merge(&more)
	}
	return wire.StatusSuccess, nil
}

// conflicts says whether one path is to be removed here and ignored there.
func (e *epilog) conflicts(other *epilog) bool {
	return slices.ContainsFunc(e.paths, func(item cleanup) bool { return slices.Contains(other.ignore, item.path) })
}

// merge adds paths; of two entries for one, each directive counts that any of them gives.
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

// cleanUp has removed what a process left to be removed, and what its namespace did if it was the last one here.
func (c *core) cleanUp(p *process) {
	c.carryOutEpilog(&p.epilog)
	if !slices.ContainsFunc(p.space.procs, func(q *process) bool { return q.local && !q.exited }) {
		c.carryOutEpilog(&p.space.epilog)
	}
}

func (c *core) carryOutEpilog(e *epilog) {
	if len(e.paths) > 0 {
		c.act(action{kind: actCleanUp, epilog: *e})
	}
	*e = epilog{}
}

// cleanUpAll has removed what is left to be removed, as the server closes: nobody is there any more to do it later.
func (c *core) cleanUpAll() {
	for _, name := range sortedKeys(c.spaces) {
		s := c.spaces[name]
		for _, p := range s.procs {
			c.carryOutEpilog(&p.epilog)
		}
		c.carryOutEpilog(&s.epilog)
	}
}
