package nodes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
)

// compare tells the user where hosts are not what they were taken for: with other processors, or another program.
func (r *root) compare(apps []daemon.App) {
	reports := make([]daemon.Report, len(r.members))
	for i, m := range r.members {
		reports[i] = m.Report()
	}
	for i := range reports {
		if guess, has := r.hosts[i].Guess, reports[i].Processors; guess > 0 && has > 0 && has != guess {
			r.notice(fmt.Sprintf("host %[1]s: oshrun took it to have %[2]d processors, as this machine has, but it has %[3]d for the job; to use these: --host %[1]s:%[3]d",
				r.hosts[i].Name, guess, has))
		}
	}
	for i := range apps {
		if text := differing(apps[i].Program, i, namesOf(r.hosts), reports); text != "" {
			r.notice(text)
		}
	}
}

// differing says on which hosts a program is another one than on most; empty: it is the same on all that have told it.
func differing(program string, index int, hosts []string, reports []daemon.Report) string {
	var prints []string             // in the order of hosts
	having := map[string][]string{} // by fingerprint: the hosts
	for i := range reports {
		if index >= len(reports[i].Programs) || reports[i].Programs[index] == "" {
			continue
		}
		p := reports[i].Programs[index]
		if having[p] == nil {
			prints = append(prints, p)
		}
		having[p] = append(having[p], hosts[i])
	}
	if len(prints) < 2 {
		return ""
	}
	usual := slices.MaxFunc(prints, func(a, b string) int { return cmp.Compare(len(having[a]), len(having[b])) })
	var others []string
	for _, p := range prints {
		if p != usual {
			others = append(others, having[p]...)
		}
	}
	return fmt.Sprintf("program %s differs between hosts: on %s it is another file than on %s; copy one build to all of them", program, plan.Few(others, ", "), plan.Few(having[usual], ", "))
}
