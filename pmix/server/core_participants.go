package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// resolveParticipants returns the processes that a request names, sorted, and FenceSet.Procs of them. No name at all
// stands for the caller's namespace. The name of a group of the caller stands for its members, as expandNames says.
func (gr *groups) resolveParticipants(from *process, procs []codec.Proc) ([]*process, string, error) {
	if len(procs) == 0 {
		return from.space.procs, from.space.everybody, nil
	}
	if len(procs) == 1 && procs[0].Rank == codec.RankWildcard && gr.spaces[procs[0].Nspace] != nil { // the usual case
		s := gr.spaces[procs[0].Nspace]
		return s.procs, s.everybody, nil
	}
	procs = gr.expandNames(from, procs)
	whole := map[*nspace]bool{}
	var some []*process
	for _, name := range procs {
		s := gr.spaces[name.Nspace]
		if s == nil {
			return nil, "", fmt.Errorf("process %v is unknown here, want a process of a job of this server", name)
		}
		if name.Rank == codec.RankWildcard {
			whole[s] = true
			continue
		}
		p := s.find(name.Rank)
		if p == nil {
			return nil, "", fmt.Errorf("process %v, want a rank below %d", name, len(s.procs))
		}
		some = append(some, p)
	}
	some = slices.DeleteFunc(some, func(p *process) bool { return whole[p.space] })
	for s := range whole {
		some = append(some, s.procs...)
	}
	slices.SortFunc(some, func(a, b *process) int { return compareProcs(a.name, b.name) })
	some = slices.Compact(some)
	return some, setKey(some), nil
}

// setKey returns FenceSet.Procs of sorted processes.
func setKey(procs []*process) string {
	var key strings.Builder
	for len(procs) > 0 {
		s := procs[0].space
		n := len(procs)
		if i := slices.IndexFunc(procs, func(p *process) bool { return p.space != s }); i >= 0 {
			n = i
		}
		if key.Len() > 0 {
			key.WriteByte(';')
		}
		key.WriteString(s.name)
		key.WriteByte(':')
		key.WriteString(ranksOf(procs[:n]))
		procs = procs[n:]
	}
	return key.String()
}

// ranksOf lists the ranks of some processes of one namespace, "*" for all of them.
func ranksOf(procs []*process) string {
	if len(procs) == len(procs[0].space.procs) {
		return "*"
	}
	list := make([]byte, 0, 8*len(procs))
	for i, p := range procs {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, uint64(p.name.Rank), 10)
	}
	return string(list)
}

// takesPart reports whether a process is among sorted processes.
func takesPart(procs []*process, p *process) bool {
	_, ok := slices.BinarySearchFunc(procs, p, func(a, b *process) int { return compareProcs(a.name, b.name) })
	return ok
}
