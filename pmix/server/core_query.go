package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/wire"
)

// Bounds on queries: some answers are much longer than the question.
const (
	maxQueryKeys  = 256
	maxQueryBytes = 16 << 20
)

// queries answers questions about jobs, processes, groups and the server.
type queries struct {
	*common
	groups *groups
}

// question is what the qualifiers of one query select.
type question struct {
	asker *process
	infos []wire.Info // the qualifiers
	space *nspace     // nil: a namespace that the server does not know
	rank  *wire.Rank  // nil: no process in particular
	node  int         // index among the job's hosts; -1: a node that the job does not have
	group string
}

// answers has the keys that are not in a job's description.
var answers map[string]func(qs *queries, q *question) (wire.Value, bool)

func init() { // a variable's initial value cannot refer to itself, as the supported keys do
	answers = map[string]func(*queries, *question) (wire.Value, bool){
		wire.KeyQuerySupportedKeys:    (*queries).supportedKeys,
		wire.KeyQueryNamespaces:       (*queries).namespaces,
		wire.KeyQueryNamespaceInfo:    (*queries).namespaceInfo,
		wire.KeyQueryJobStatus:        (*queries).jobStatus,
		wire.KeyQueryProcTable:        (*queries).procTable,
		wire.KeyQueryLocalProcTable:   (*queries).localProcTable,
		wire.KeyProcPID:               (*queries).procPID,
		wire.KeyProcState:             (*queries).procState,
		wire.KeyQueryNumPsets:         (*queries).numPsets,
		wire.KeyQueryPsetNames:        (*queries).psetNames,
		wire.KeyQueryNumGroups:        (*queries).numGroups,
		wire.KeyQueryGroupNames:       (*queries).groupNames,
		wire.KeyQueryGroupMembership:  (*queries).groupMembership,
		wire.KeyQuerySpawnSupport:     (*queries).spawnSupport,
		wire.KeyQueryAttributeSupport: (*queries).attributeSupport,
		wire.KeyVersion:               fixed(wire.StringValue(wire.Version)),
		wire.KeyRMName:                fixed(wire.StringValue("goshmem")),
		wire.KeyRMVersion:             fixed(wire.StringValue(version.String())),
	}
}

// fixed answers a key whose value never changes.
func fixed(v wire.Value) func(*queries, *question) (wire.Value, bool) {
	return func(*queries, *question) (wire.Value, bool) { return v, true }
}

// answerQuery serves a query: it answers every key that it can. libpmix 4.2 takes the answer to several keys only if none is
// missing; later versions take what there is.
func (qs *queries) answerQuery(at caller, r *wire.QueryRequest) {
	e := wire.NewEncoder(nil)
	asked, found := 0, 0
	for i := range r.Queries {
		q := qs.readQualifiers(at.process, r.Queries[i].Qualifiers)
		for _, key := range r.Queries[i].Keys {
			if asked++; asked > maxQueryKeys {
				qs.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("query: more than %d keys", maxQueryKeys))
				return
			}
			v, ok := qs.findAnswer(q, key)
			if !ok {
				continue
			}
			found++
			e.Info(wire.Info{Key: key, Value: v})
			if len(e.Bytes()) > maxQueryBytes {
				qs.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("query: answer of more than %d bytes", maxQueryBytes))
				return
			}
		}
	}
	status := wire.StatusSuccess
	switch {
	case asked == 0:
		qs.refuse(at, wire.StatusErrBadParam, "query: no keys, want at least one")
		return
	case e.Err() != nil:
		qs.refuse(at, wire.StatusErrPackFailure, "query: "+e.Err().Error())
		return
	case found == 0:
		status = wire.StatusErrNotFound
	case found < asked:
		status = wire.StatusErrPartialSuccess
	}
	qs.send(at.conn, at.tag, wire.AppendQueryReply(nil, status, found, e.Bytes()))
}

// readQualifiers reads the qualifiers of a query. Without any, its keys are about the caller's own job and node.
func (qs *queries) readQualifiers(p *process, infos []wire.Info) *question {
	q := &question{asker: p, infos: infos, space: p.space, node: -1}
	for _, info := range infos {
		switch info.Key {
		case wire.KeyProcID:
			if proc, ok := info.Value.Data.(wire.Proc); ok {
				q.space, q.rank = qs.spaces[proc.Nspace], &proc.Rank
			}
		case wire.KeyNspace:
			if name, ok := info.Value.Str(); ok {
				q.space = qs.spaces[name]
			}
		case wire.KeyRank:
			if n, ok := info.Value.Uint64(); ok {
				rank := wire.Rank(n)
				q.rank = &rank
			}
		case wire.KeyGroupID:
			q.group, _ = info.Value.Str()
		}
	}
	if q.rank != nil && *q.rank == wire.RankWildcard {
		q.rank = nil
	}
	if q.space != nil && q.space.job != nil {
		q.node = q.space.job.nodeOf(infos)
	}
	return q
}

// nodeOf returns the node that qualifiers name, this node if they name none.
func (j *Job) nodeOf(infos []wire.Info) int {
	if v, ok := wire.Find(infos, wire.KeyHostname); ok {
		name, _ := v.Str()
		return slices.Index(j.Hosts, name)
	}
	if v, ok := wire.Find(infos, wire.KeyNodeID); ok {
		if n, ok := v.Uint64(); ok && n < uint64(len(j.Hosts)) {
			return int(n)
		}
		return -1
	}
	return int(j.ThisNode)
}

// findAnswer returns the value of a key.
func (qs *queries) findAnswer(q *question, key string) (wire.Value, bool) {
	if f := answers[key]; f != nil {
		return f(qs, q)
	}
	if q.space == nil {
		return wire.Value{}, false
	}
	return q.space.facts().find(q, key)
}

func (qs *queries) supportedKeys(*question) (wire.Value, bool) {
	return wire.StringValue(strings.Join(sortedKeys(answers), ",")), true
}

func (qs *queries) namespaces(*question) (wire.Value, bool) {
	var jobs []string
	for _, name := range sortedKeys(qs.spaces) {
		if !qs.spaces[name].tool {
			jobs = append(jobs, name)
		}
	}
	return wire.StringValue(strings.Join(jobs, ",")), true
}

// numPsets returns 0: there are no process sets other than namespaces and groups.
func (qs *queries) numPsets(*question) (wire.Value, bool) { return wire.SizeValue(0), true }

func (qs *queries) psetNames(*question) (wire.Value, bool) { return wire.StringValue(""), true }

func (qs *queries) numGroups(*question) (wire.Value, bool) {
	n := 0
	for _, groups := range qs.groups.byID {
		n += len(groups)
	}
	return wire.SizeValue(uint64(n)), true
}

func (qs *queries) groupNames(*question) (wire.Value, bool) {
	names := []any{}
	for _, id := range sortedKeys(qs.groups.byID) {
		for range qs.groups.byID[id] {
			names = append(names, id)
		}
	}
	return wire.Value{Type: wire.TypeDataArray, Data: wire.Array{Type: wire.TypeString, Elems: names}}, true
}

// groupMembership lists the members of a group; of several groups with one name, the asker's.
func (qs *queries) groupMembership(q *question) (wire.Value, bool) {
	g := qs.groups.findGroup(q.group, q.asker)
	if g == nil {
		if len(qs.groups.byID[q.group]) == 0 {
			return wire.Value{}, false
		}
		g = qs.groups.byID[q.group][0]
	}
	return wire.ProcsValue(names(g.members)...), true
}
