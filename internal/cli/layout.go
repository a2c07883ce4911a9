package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

const hintHosts = "--host a:4,b:4, or --hostfile FILE with lines such as a slots=4; oshrun help mpirun"

// maxHostfile bounds what is read of a hostfile.
const maxHostfile = 16 << 20

// layOut says on which hosts the PEs of all parts run, and sets how many PEs a part has that does
// not say it. The layout is nil if no hosts are given: all PEs run on this machine.
func (f *runFlags) layOut(parts []part, isHere func(host string) bool) (*plan.Layout, error) {
	job := &plan.Job{MostPerNode: layout.MaxLocal, Processors: runtime.NumCPU(), IsHere: isHere}
	if err := f.setPolicy(job); err != nil {
		return nil, err
	}
	isListed := false
	for i := range parts {
		app, err := parts[i].flags.hosts(f.mapping)
		if err != nil {
			return nil, inPart(i, err)
		}
		if parts[i].counted {
			app.PEs = parts[i].flags.n
		}
		isListed = isListed || app.File != nil || app.List != nil
		job.Apps = append(job.Apps, app)
	}
	if err := f.setGiven(job, parts); err != nil {
		return nil, err
	}
	if !isListed && job.Given == nil {
		return nil, f.countHere(parts, job)
	}
	l, err := lay(job, parts)
	if err == nil && f.isEmulated() {
		l.Allocation.Emulated = true // also hosts of a list, a file or Slurm, by --launch local
	}
	return l, err
}

// setGiven notes the hosts that are there without a list: emulated ones, otherwise those of Slurm.
func (f *runFlags) setGiven(job *plan.Job, parts []part) (err error) {
	if f.emulate != "" {
		job.IsHere = nil // though this machine may be called node0
		job.Given, err = f.emulation(func(nodes int) (n int) {
			for i := range parts {
				if per := job.Apps[i].PerNode; per > 0 && !parts[i].counted {
					n += per * nodes
				} else {
					n += parts[i].flags.n
				}
			}
			return n
		})
		return err
	}
	if job.Given, err = plan.Slurm(os.LookupEnv); err != nil {
		return usagef("env -u SLURM_JOB_ID -u SLURM_JOBID oshrun ... takes no notice of Slurm", "%w", err)
	}
	return nil
}

// lay lays out the job over hosts.
func lay(job *plan.Job, parts []part) (*plan.Layout, error) {
	l, err := job.Lay()
	if err != nil {
		return nil, layoutError(err)
	}
	for i := range parts {
		parts[i].flags.n = l.Counts[i]
	}
	return l, checkLogins(l, ownUser)
}

// ownUser returns the name of the user who runs this process; empty: it is not known.
func ownUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// checkLogins refuses a user and a port of this machine: its PEs are started without ssh, by the user who runs oshrun.
func checkLogins(l *plan.Layout, own func() string) error {
	for i := range l.Nodes {
		h := &l.Nodes[i].Host
		switch {
		case !l.Nodes[i].Here:
		case h.User != "" && h.User != own():
			return usagef("leave the user out", "host %s@%s: the host is this machine, whose PEs user %s runs, want no other user", h.User, h.Name, own())
		case h.Port != 0:
			return usagef("leave the port out", "host %s, port %d: the host is this machine, where PEs start without ssh, want no port", h.Name, h.Port)
		}
	}
	return nil
}

// setPolicy reads how PEs are spread over hosts.
func (f *runFlags) setPolicy(job *plan.Job) (err error) {
	if f.mapBy != "" {
		if f.mapping, err = plan.ParseMapBy(f.mapBy); err != nil {
			return usagef(hintBind, "--map-by: %w", withSuggestion(err))
		}
	}
	if f.rankBy != "" {
		if job.Rank, f.rankUnit, err = plan.ParseRank(f.rankBy); err != nil {
			return usagef("--rank-by slot, or leave the option out", "--rank-by: %w", withSuggestion(err))
		}
	}
	job.By, job.Over = f.mapping.By, f.mapping.Over
	switch {
	case f.crowdless && f.crowded, f.crowdless && job.Over == plan.OverAllowed, f.crowded && job.Over == plan.OverForbidden:
		return usagef("leave one out", "--oversubscribe and --nooversubscribe exclude each other")
	case f.crowded:
		job.Over = plan.OverAllowed
	case f.crowdless:
		job.Over = plan.OverForbidden
	}
	f.crowdless = job.Over == plan.OverForbidden
	return nil
}

// countNodes reads --nodes: 0 if it is not given.
func (f *habitFlags) countNodes() (int, error) {
	if f.nodes == "" {
		return 0, nil
	}
	least, most, isRange := strings.Cut(f.nodes, "-")
	n, err := strconv.Atoi(least)
	if err != nil || n < 1 || isRange && most != least {
		return 0, usagef("--nodes 2", "--nodes: %q, want a number of hosts", f.nodes)
	}
	return n, nil
}

// hosts reads what a part says of its hosts, and of PEs on each of them.
func (f *runFlags) hosts(m plan.MapBy) (app plan.App, err error) {
	if app.PerNode, err = f.countPerNode(m); err != nil {
		return app, err
	}
	if app.MostNodes, err = f.countNodes(); err != nil {
		return app, err
	}
	if app.MostNodes > 0 && m.By == plan.BySeq {
		return app, usagef("leave one out", "--nodes and --map-by seq exclude each other: the list or file says which hosts have PEs")
	}
	if len(f.habitFlags.hosts) > 0 {
		app.ListFrom = "--host " + strings.Join(f.habitFlags.hosts, ",")
	}
	for _, list := range f.habitFlags.hosts {
		entries, err := plan.ParseHostList("--host", list)
		if err != nil {
			return app, usagef(hintHosts, "%w", err)
		}
		app.List = append(app.List, entries...)
	}
	if f.hostfile == "" {
		return app, nil
	}
	app.FileFrom = "--hostfile " + f.hostfile
	text, err := readHostfile(f.hostfile)
	if err != nil {
		return app, usagef("leave the option out, or "+hintHosts, "--hostfile: %w", err)
	}
	if app.File, err = plan.ParseHostfile(app.FileFrom, text); err != nil {
		return app, usagef(hintHosts, "%w", withSuggestion(err))
	}
	return app, nil
}

// readHostfile reads a file that should be a small one.
func readHostfile(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxHostfile+1))
	if err == nil && len(text) > maxHostfile {
		err = fmt.Errorf("%s is longer than %d bytes, want lines of hosts", name, maxHostfile)
	}
	return string(text), err
}

// countPerNode returns how many PEs go to each host: 0 if nothing says it.
func (f *runFlags) countPerNode(m plan.MapBy) (int, error) {
	for _, of := range [][2]string{{"-N", f.perNode}, {"-ppn", f.ppn}} {
		if text := of[1]; text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return 0, usagef("oshrun -n 4 ./program", "%s: %q, want a number of PEs", of[0], text)
			}
			return n, nil
		}
	}
	if m.PerUnit == 0 || m.Unit == plan.BindNone {
		return m.PerUnit, nil
	}
	machine, err := xunix.Topology() // other hosts are taken to be like this machine
	if err != nil {
		return 0, usagef("--map-by ppr:4:node", "--map-by %s: processors of this machine: %w", f.mapBy, err)
	}
	return m.PerUnit * machine.Units(m.Unit), nil
}

// countHere sets how many PEs the parts have where all run on this machine, and refuses what takes
// other hosts.
func (f *runFlags) countHere(parts []part, job *plan.Job) error {
	if job.By == plan.BySeq {
		return usagef("oshrun --hostfile FILE --map-by seq ./program", "--map-by: %q, want --hostfile or --host with it: no hosts are given", f.mapBy)
	}
	for i := range parts {
		if most := job.Apps[i].MostNodes; most > 1 {
			return inPart(i, usagef(hintHosts, "--nodes: %d, want 1: no hosts are given", most))
		}
		per := job.Apps[i].PerNode
		switch n := parts[i].flags.n; {
		case per == 0:
		case !parts[i].counted:
			parts[i].flags.n = per
		case n > per && per != 1 && parts[i].flags.ppn == "": // srun's -N 1 is one node; hydra begins again with the first
			return inPart(i, usagef("oshrun -n "+strconv.Itoa(n)+" ./program; "+hintHosts, "-N: %d for %d PEs takes several nodes, and no hosts are given", per, n))
		}
	}
	return nil
}

// layoutError says what helps where PEs find no room.
func layoutError(err error) error {
	if nodes, ok := errors.AsType[*plan.TooManyNodesError](err); ok {
		return inPart(nodes.Program, usagef("a smaller --nodes, or "+hintHosts, "--nodes: %w", err))
	}
	many, isMany := errors.AsType[*plan.TooManyPEsError](err)
	if !isMany {
		return usagef(hintHosts, "%w", withSuggestion(err))
	}
	hint := "fewer PEs, or more hosts"
	switch {
	case many.CanOverload:
		hint = "fewer PEs, or more slots, such as --host a:4,b:4; --map-by :OVERSUBSCRIBE lets hosts have more PEs than slots"
	case many.Lacks == "hosts":
		hint = "fewer PEs, or more hosts; -N is the number of PEs on each host, --nodes that of hosts"
	}
	return inPart(many.Program, usagef(hint, "%w", err))
}

// withSuggestion adds to an error about an unknown word which one was probably meant.
func withSuggestion(err error) error {
	unknown, isUnknown := errors.AsType[*plan.UnknownError](err)
	if !isUnknown {
		return err
	}
	if slices.Contains(unknown.Known, unknown.Word) {
		return err
	}
	if best := suggest(strings.ToLower(unknown.Word), unknown.Known); best != "" {
		return fmt.Errorf("%w; did you mean %s?", err, best)
	}
	return err
}
