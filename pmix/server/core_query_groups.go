package server

import (
	"cmp"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// A node knows the groups of which it has, or had, a founder. A query about groups asks all other nodes: each tells its groups
// with those members that are on it. The asker's own node also counts the members of its groups that other nodes have yet to
// hear of, unless these have ended there.

// groupSight is what is known of a group.
type groupSight struct {
	id       string
	founders string // FenceSet.Procs of them
	members  []codec.Proc
}

func compareGroups(a, b groupSight) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.founders, b.founders))
}

// isAboutGroups reports whether a key is about groups.
func isAboutGroups(key string) bool {
	switch key {
	case codec.KeyQueryNumGroups, codec.KeyQueryGroupNames, codec.KeyQueryGroupMembership:
		return true
	default:
		return false
	}
}

// asksForGroups reports whether a query has a key about groups.
func asksForGroups(r *codec.QueryRequest) bool {
	return slices.ContainsFunc(r.Queries, func(q codec.Query) bool { return slices.ContainsFunc(q.Keys, isAboutGroups) })
}

// sightGroups returns the groups that this node knows, with the members that count says.
func (qs *queries) sightGroups(counts func(g *group, p *process) bool) (list []groupSight) {
	for _, id := range sortedKeys(qs.groups.byID) {
		for _, g := range qs.groups.byID[id] {
			s := groupSight{id: id, founders: g.fences.Procs}
			for _, p := range g.members {
				if counts(g, p) {
					s.members = append(s.members, p.name)
				}
			}
			list = append(list, s)
		}
	}
	return list
}

// appendGroups packs the groups of this node, each with its members here.
func (qs *queries) appendGroups(e *codec.Encoder) {
	list := qs.sightGroups(func(_ *group, p *process) bool { return p.local })
	e.Uint(uint64(len(list)))
	for _, s := range list {
		e.ByteObject([]byte(s.id))
		e.ByteObject([]byte(s.founders))
		e.Procs(s.members)
	}
}

// readGroups is the inverse of appendGroups.
func readGroups(d *codec.Decoder) (list []groupSight) {
	for range min(d.Uint(), uint64(d.Rest())) { // each takes three bytes or more
		list = append(list, groupSight{id: string(d.ByteObject()), founders: string(d.ByteObject()), members: d.Procs()})
	}
	return list
}

// farMembers returns the members of this node's groups that are on other nodes.
func (qs *queries) farMembers() (procs []codec.Proc) {
	for _, s := range qs.sightGroups(func(_ *group, p *process) bool { return !p.local }) {
		procs = append(procs, s.members...)
	}
	return procs
}

// allNodes returns all other nodes that have processes.
func (qs *queries) allNodes() []int {
	var all []codec.Proc
	for name := range qs.spaces {
		all = append(all, codec.Proc{Nspace: name, Rank: codec.RankWildcard})
	}
	nodes, _ := qs.errands.nodesOf(all)
	return nodes
}

// listGroups returns the groups of all nodes, by name. A group without members is none.
func (qs *queries) listGroups() []groupSight {
	list := qs.sightGroups(func(g *group, p *process) bool {
		_, ended := p.end()
		return p.local || !ended && g.broken == codec.StatusSuccess
	})
	list = append(list, qs.farGroups...)
	slices.SortStableFunc(list, compareGroups)
	var merged []groupSight
	for _, s := range list {
		if n := len(merged); n > 0 && compareGroups(merged[n-1], s) == 0 {
			merged[n-1].members = append(merged[n-1].members, s.members...)
		} else {
			merged = append(merged, s)
		}
	}
	for i := range merged {
		slices.SortFunc(merged[i].members, compareProcs)
		merged[i].members = slices.Compact(merged[i].members)
	}
	return slices.DeleteFunc(merged, func(s groupSight) bool { return len(s.members) == 0 })
}

func (qs *queries) numGroups(*question) (codec.Value, bool) {
	return codec.SizeValue(uint64(len(qs.listGroups()))), true
}

func (qs *queries) groupNames(*question) (codec.Value, bool) {
	names := []any{}
	for _, s := range qs.listGroups() {
		names = append(names, s.id)
	}
	return codec.Value{Type: codec.TypeDataArray, Data: codec.Array{Type: codec.TypeString, Elems: names}}, true
}

// groupMembership lists the members of a group; of several groups with one name, the asker's.
func (qs *queries) groupMembership(q *question) (codec.Value, bool) {
	list := slices.DeleteFunc(qs.listGroups(), func(s groupSight) bool { return s.id != q.group })
	if len(list) == 0 {
		return codec.Value{}, false
	}
	own := slices.IndexFunc(list, func(s groupSight) bool { return slices.Contains(s.members, q.asker.name) })
	return codec.ProcsValue(list[max(own, 0)].members...), true
}
