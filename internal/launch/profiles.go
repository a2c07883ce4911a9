package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// profiles finds out which PEs have left no profiles, and why.
type profiles struct {
	dir    string
	before map[string]os.FileInfo // files of earlier runs
	jobs   map[int]int            // number of PEs by job
	silent map[daemon.ID]bool     // PEs that were asked for their profiles and did not answer in time
	ends   map[daemon.ID]ending.End
}

// newProfiles returns nil if nobody asked for profiles.
func newProfiles(o *Options) *profiles {
	if o.Pprof == "" {
		return nil
	}
	return &profiles{
		dir: o.Pprof, before: map[string]os.FileInfo{}, jobs: map[int]int{}, silent: map[daemon.ID]bool{}, ends: map[daemon.ID]ending.End{},
	}
}

// expect looks at what is in the directory before a job starts.
func (p *profiles) expectJob(job, npes int) {
	if p == nil {
		return
	}
	p.jobs[job] = npes
	for pe := range npes {
		for _, name := range p.files(daemon.ID{Job: job, PE: pe}) {
			if info, err := os.Stat(name); err == nil {
				p.before[name] = info
			}
		}
	}
}

// forget leaves out a job that could not be started.
func (p *profiles) dropJob(job int) {
	if p != nil {
		delete(p.jobs, job)
	}
}

func (p *profiles) files(id daemon.ID) [2]string {
	name := filepath.Join(p.dir, wire.ProfileName(id.Job, id.PE))
	return [2]string{name + ".cpu.pprof", name + ".heap.pprof"}
}

// collect asks the PEs for their profiles, as they are about to be ended.
func (p *profiles) collect(cluster *Cluster) {
	for _, a := range cluster.Ask(wire.OrderProfile, profileAtMost) {
		if a.Late {
			p.silent[a.ID] = true
		}
	}
}

// ended notes how a PE ended.
func (p *profiles) noteEnd(e daemon.Event) {
	if p != nil {
		p.ends[e.ID] = e.End
	}
}

// missing returns a line for each reason why PEs of a job have left no profile.
func (p *profiles) missing() (lines []string) {
	for _, job := range sortedKeys(p.jobs) {
		var reasons []string
		pes := map[string][]int{}
		for pe := range p.jobs[job] {
			id := daemon.ID{Job: job, PE: pe}
			if p.left(id) {
				continue
			}
			why := p.reason(id)
			if pes[why] == nil {
				reasons = append(reasons, why)
			}
			pes[why] = append(pes[why], pe)
		}
		for _, why := range reasons {
			lines = append(lines, fmt.Sprintf("--pprof: no profile of %s: %s", listPEsOf(job, pes[why]), why))
		}
	}
	return lines
}

// left says whether both profiles of a PE are there, and not of an earlier run.
func (p *profiles) left(id daemon.ID) bool {
	for _, name := range p.files(id) {
		info, err := os.Stat(name)
		if err != nil || p.before[name] != nil && os.SameFile(info, p.before[name]) {
			return false
		}
	}
	return true
}

func (p *profiles) reason(id daemon.ID) string {
	end, ended := p.ends[id]
	switch {
	case p.silent[id]:
		return fmt.Sprintf("it was asked for it at the end of the job and did not answer within %v", profileAtMost)
	case !ended:
		return "it was not started"
	}
	switch end.Judge() {
	case ending.Killed:
		return fmt.Sprintf("it was killed by signal %d (%s)", end.Signal, xunix.SignalName(syscall.Signal(end.Signal)))
	case ending.Exited:
		return fmt.Sprintf("it exited with status %d without Finalize", end.Code)
	case ending.Unfinished:
		return "it exited without Finalize"
	default:
		return "it called neither shmem.Init nor mpi.Init, or could not write the files"
	}
}

// printProfiles says which PEs have left no profile.
func (r *run) printProfiles() {
	if r.profiles == nil {
		return
	}
	for _, line := range r.profiles.missing() {
		r.out.message("%s", line)
	}
}

// listPEsOf lists PEs of a job, which is named if it was spawned.
func listPEsOf(job int, pes []int) string {
	if job == 0 {
		return listPEs(pes)
	}
	return fmt.Sprintf("%s of job %d", listPEs(pes), job)
}

// listPEs lists numbers in ascending order as ranges: "PE 3", "PEs 0-2, 5".
func listPEs(pes []int) string {
	var parts []string
	for rest := slices.Clone(pes); len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n] == rest[0]+n {
			n++
		}
		part := fmt.Sprint(rest[0])
		if n > 1 {
			part += fmt.Sprintf("-%d", rest[n-1])
		}
		parts, rest = append(parts, part), rest[n:]
	}
	if len(pes) == 1 {
		return "PE " + parts[0]
	}
	return "PEs " + strings.Join(parts, ", ")
}
