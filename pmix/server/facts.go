package server

import "github.com/goshmem/goshmem/pmix/codec"

// facts are a job's description by key.
type facts struct {
	job   map[string]codec.Value   // of the job and its session
	nodes []map[string]codec.Value // by node; nil for a node without processes of the job
	procs []map[string]codec.Value
}

// facts returns the description by key. The first call builds it.
func (s *nspace) facts() *facts {
	if s.known != nil {
		return s.known
	}
	f := &facts{job: map[string]codec.Value{}}
	s.known = f
	if s.about == nil {
		return f
	}
	f.nodes = make([]map[string]codec.Value, len(s.job.Hosts))
	for _, kv := range s.about.pairs {
		infos, nested := kv.Value.Infos()
		switch {
		case !nested:
			f.job[kv.Key] = kv.Value
		case kv.Key == codec.KeyNodeInfo:
			node := map[string]codec.Value{}
			putInfos(node, infos)
			if id, ok := node[codec.KeyNodeID].Uint64(); ok {
				f.nodes[id] = node
			}
		case kv.Key == codec.KeyAppInfo: // keys of one application, not of the job
		default:
			putInfos(f.job, infos)
		}
	}
	for rank, keys := range s.about.procs {
		proc := map[string]codec.Value{codec.KeyRank: codec.RankValue(codec.Rank(rank))}
		for _, kv := range keys {
			proc[kv.Key] = kv.Value
		}
		f.procs = append(f.procs, proc)
	}
	return f
}

// putInfos sets the keys of m.
func putInfos(m map[string]codec.Value, infos []codec.Info) {
	for _, info := range infos {
		m[info.Key] = info.Value
	}
}

// find looks a key up: first of the process in question, then of the job, then of the node.
func (f *facts) find(q *question, key string) (codec.Value, bool) {
	if q.rank != nil {
		if uint64(*q.rank) >= uint64(len(f.procs)) {
			return codec.Value{}, false
		}
		if v, ok := f.procs[*q.rank][key]; ok {
			return v, true
		}
	}
	if v, ok := f.job[key]; ok {
		return v, true
	}
	if q.node < 0 || q.node >= len(f.nodes) {
		return codec.Value{}, false
	}
	v, ok := f.nodes[q.node][key]
	return v, ok
}
