package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/pmix/codec"
)

// Bounds on queries: some answers are much longer than the question.
const (
	maxQueryKeys  = 256
	maxQueryBytes = 16 << 20
)

// queries answers questions about jobs, processes, groups and the server.
type queries struct {
	*common
	groups    *groups
	errands   *errands
	farGroups []groupSight // of other nodes, while a query is answered that has asked for them
}

// question is what the qualifiers of one query select.
type question struct {
	asker *process
	infos []codec.Info // the qualifiers
	space *nspace      // nil: a namespace that the server does not know
	rank  *codec.Rank  // nil: no process in particular
	node  int          // index among the job's hosts; -1: a node that the job does not have
	group string
}

// answers has the keys that are not in a job's description.
var answers map[string]func(qs *queries, q *question) (codec.Value, bool)

func init() { // a variable's initial value cannot refer to itself, as the supported keys do
	answers = map[string]func(*queries, *question) (codec.Value, bool){
		codec.KeyQuerySupportedKeys:    (*queries).supportedKeys,
		codec.KeyQueryNamespaces:       (*queries).namespaces,
		codec.KeyQueryNamespaceInfo:    (*queries).namespaceInfo,
		codec.KeyQueryJobStatus:        (*queries).jobStatus,
		codec.KeyQueryProcTable:        (*queries).procTable,
		codec.KeyQueryLocalProcTable:   (*queries).localProcTable,
		codec.KeyProcPID:               (*queries).procPID,
		codec.KeyProcState:             (*queries).procState,
		codec.KeyQueryNumPsets:         (*queries).numPsets,
		codec.KeyQueryPsetNames:        (*queries).psetNames,
		codec.KeyQueryNumGroups:        (*queries).numGroups,
		codec.KeyQueryGroupNames:       (*queries).groupNames,
		codec.KeyQueryGroupMembership:  (*queries).groupMembership,
		codec.KeyQuerySpawnSupport:     (*queries).spawnSupport,
		codec.KeyQueryAttributeSupport: (*queries).attributeSupport,
		codec.KeyVersion:               fixed(codec.StringValue(codec.Version)),
		codec.KeyRMName:                fixed(codec.StringValue("goshmem")),
		codec.KeyRMVersion:             fixed(codec.StringValue(version.String())),
	}
}

// fixed answers a key whose value never changes.
func fixed(v codec.Value) func(*queries, *question) (codec.Value, bool) {
	return func(*queries, *question) (codec.Value, bool) { return v, true }
}

// answerQuery serves a query: it answers every key that it can. libpmix 4.2 takes the answer to several keys only if
// none is missing; later versions take what there is.
func (qs *queries) answerQuery(at caller, r *codec.QueryRequest) {
	e := codec.NewEncoder(nil)
	asked, found := 0, 0
	for i := range r.Queries {
		q := qs.readQualifiers(at.process, r.Queries[i].Qualifiers)
		for _, key := range r.Queries[i].Keys {
			if asked++; asked > maxQueryKeys {
				qs.refuse(at, codec.StatusErrOutOfResource, fmt.Sprintf("query: more than %d keys", maxQueryKeys))
				return
			}
			v, ok := qs.findAnswer(q, key)
			if !ok {
				continue
			}
			found++
			e.Info(codec.Info{Key: key, Value: v})
			if len(e.Bytes()) > maxQueryBytes {
				qs.refuse(at, codec.StatusErrOutOfResource, fmt.Sprintf("query: answer of more than %d bytes", maxQueryBytes))
				return
			}
		}
	}
	status := codec.StatusSuccess
	switch {
	case asked == 0:
		qs.refuse(at, codec.StatusErrBadParam, "query: no keys, want at least one")
		return
	case e.Err() != nil:
		qs.refuse(at, codec.StatusErrPackFailure, "query: "+e.Err().Error())
		return
	case found == 0:
		status = codec.StatusErrNotFound
	case found < asked:
		status = codec.StatusErrPartialSuccess
	}
	qs.send(at.conn, at.tag, codec.AppendQueryReply(nil, status, found, e.Bytes()))
}

// readQualifiers reads the qualifiers of a query. Without any, its keys are about the caller's own job and node.
func (qs *queries) readQualifiers(p *process, infos []codec.Info) *question {
	q := &question{asker: p, infos: infos, space: p.space, node: -1}
	for _, info := range infos {
		switch info.Key {
		case codec.KeyProcID:
			if proc, ok := info.Value.Data.(codec.Proc); ok {
				q.space, q.rank = qs.spaces[proc.Nspace], &proc.Rank
			}
		case codec.KeyNspace:
			if name, ok := info.Value.Str(); ok {
				q.space = qs.spaces[name]
			}
		case codec.KeyRank:
			if n, ok := info.Value.Uint64(); ok {
				rank := codec.Rank(n)
				q.rank = &rank
			}
		case codec.KeyGroupID:
			q.group, _ = info.Value.Str()
		}
	}
	if q.rank != nil && *q.rank == codec.RankWildcard {
		q.rank = nil
	}
	if q.space != nil && q.space.job != nil {
		q.node = q.space.job.nodeOf(infos)
	}
	return q
}

// nodeOf returns the node that qualifiers name, this node if they name none.
func (j *JobLayout) nodeOf(infos []codec.Info) int {
	if v, ok := codec.Find(infos, codec.KeyHostname); ok {
		name, _ := v.Str()
		return slices.Index(j.Hosts, name)
	}
	if v, ok := codec.Find(infos, codec.KeyNodeID); ok {
		if n, ok := v.Uint64(); ok && n < uint64(len(j.Hosts)) {
			return int(n)
		}
		return -1
	}
	return int(j.ThisNode)
}

// findAnswer returns the value of a key.
func (qs *queries) findAnswer(q *question, key string) (codec.Value, bool) {
	if f := answers[key]; f != nil {
		return f(qs, q)
	}
	if q.space == nil {
		return codec.Value{}, false
	}
	return q.space.facts().find(q, key)
}

func (qs *queries) supportedKeys(*question) (codec.Value, bool) {
	return codec.StringValue(strings.Join(sortedKeys(answers), ",")), true
}

func (qs *queries) namespaces(*question) (codec.Value, bool) {
	var jobs []string
	for _, name := range sortedKeys(qs.spaces) {
		if !qs.spaces[name].tool {
			jobs = append(jobs, name)
		}
	}
	return codec.StringValue(strings.Join(jobs, ",")), true
}

// numPsets returns 0: there are no process sets other than namespaces and groups.
func (qs *queries) numPsets(*question) (codec.Value, bool) { return codec.SizeValue(0), true }

func (qs *queries) psetNames(*question) (codec.Value, bool) { return codec.StringValue(""), true }
