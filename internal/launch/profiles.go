package launch

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// profiles finds out which PEs have left no profiles and why, and on which hosts the others are.
type profiles struct {
	o      *Options
	jobs   map[int]int        // number of PEs by job
	silent map[daemon.ID]bool // PEs that were asked for their profiles and did not answer in time
	ends   map[daemon.ID]ending.End
	left   map[daemon.ID]int // by PE that has left its profiles: the index of its node
}

// newProfiles returns nil if nobody asked for profiles.
func newProfiles(o *Options) *profiles {
	if o.Pprof == "" {
		return nil
	}
	return &profiles{o: o, jobs: map[int]int{}, silent: map[daemon.ID]bool{}, ends: map[daemon.ID]ending.End{}, left: map[daemon.ID]int{}}
}

// expectJob notes how many PEs a job has.
func (p *profiles) expectJob(job, npes int) {
	if p != nil {
		p.jobs[job] = npes
	}
}

// dropJob leaves out a job that could not be started.
func (p *profiles) dropJob(job int) {
	if p != nil {
		delete(p.jobs, job)
	}
}

// collect asks the PEs for their profiles, as they are about to be ended.
func (p *profiles) collect(cluster *Cluster) {
	for _, a := range cluster.Ask(wire.OrderProfile, profileAtMost) {
		if a.Late {
			p.silent[a.ID] = true
		}
	}
}

// noteEnd notes how a PE ended, on which node.
func (p *profiles) noteEnd(e daemon.Event, node int) {
	if p != nil {
		p.ends[e.ID] = e.End
		if e.Profiled {
			p.left[e.ID] = node
		}
	}
}

// missing returns a line for each reason why PEs of a job have left no profile.
func (p *profiles) missing() (lines []string) {
	for _, job := range sortedKeys(p.jobs) {
		var reasons []string
		pes := map[string][]int{}
		for pe := range p.jobs[job] {
			id := daemon.ID{Job: job, PE: pe}
			if _, left := p.left[id]; left {
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

// elsewhere returns a line for each other machine on which PEs have left profiles.
func (p *profiles) elsewhere() (lines []string) {
	l := p.o.Layout
	if l.IsHere() || l.Allocation.Emulated {
		return nil
	}
	for _, job := range sortedKeys(p.jobs) {
		pes := map[int][]int{} // by node
		for pe := range p.jobs[job] {
			if node, left := p.left[daemon.ID{Job: job, PE: pe}]; left {
				pes[node] = append(pes[node], pe)
			}
		}
		for node := range l.Nodes {
			if len(pes[node]) > 0 && !l.Nodes[node].Here {
				lines = append(lines, fmt.Sprintf("--pprof: profiles of %s are in %s on %s", listPEsOf(job, pes[node]), p.o.Pprof, l.Nodes[node].Host.Name))
			}
		}
	}
	return lines
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

// printProfiles says which PEs have left no profile, and where those of other machines are.
func (r *run) printProfiles() {
	if r.profiles == nil {
		return
	}
	for _, line := range slices.Concat(r.profiles.missing(), r.profiles.elsewhere()) {
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
