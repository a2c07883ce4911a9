package server

import (
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// description is everything that processes are told about a job.
type description struct {
	nspace string
	pairs  []codec.KVal   // of the job, its session and its nodes
	procs  [][]codec.KVal // of each process, by rank
}

// describe returns the description of a job. The parent is the process that spawned it, none if its namespace is empty.
func (j *JobLayout) describe(parent codec.Proc) *description {
	procs := j.byRank()
	d := &description{nspace: j.Nspace, pairs: j.pairs(procs), procs: j.procKeys(procs)}
	if parent.Nspace == "" {
		return d
	}
	// Some clients ask for these keys with their own rank, some with the wildcard.
	origin := []codec.KVal{
		{Key: codec.KeySpawned, Value: codec.BoolValue(true)}, {Key: codec.KeyParentID, Value: codec.ProcValue(parent)},
	}
	d.pairs = append(d.pairs, origin...)
	for i := range d.procs {
		d.procs[i] = append(d.procs[i], origin...)
	}
	return d
}

// info packs the description as the answer to an init request, which processes that spawn the job or connect to it get
// too.
func (d *description) info() ([]byte, error) {
	info := codec.JobInfo{Nspace: d.nspace, Pairs: slices.Clip(d.pairs)}
	for rank, keys := range d.procs {
		blob := codec.ProcBlob{Rank: codec.Rank(rank), Pairs: keys}
		v, err := blob.Value()
		if err != nil {
			return nil, err
		}
		info.Pairs = append(info.Pairs, codec.KVal{Key: codec.KeyProcBlob, Value: v})
	}
	return info.Append(nil)
}

// jobLevel is the description packed as the answer to a get.
type jobLevel struct {
	keys  map[string]bool // all keys, of the job and of its processes
	reply []byte          // the packed answer
}

func (d *description) level() (*jobLevel, error) {
	l := &jobLevel{keys: map[string]bool{}, reply: codec.AppendStatusReply(nil, codec.StatusSuccess)}
	if err := l.add(codec.Proc{Nspace: d.nspace, Rank: codec.RankWildcard}, d.pairs); err != nil {
		return nil, err
	}
	for rank, keys := range d.procs {
		if err := l.add(codec.Proc{Nspace: d.nspace, Rank: codec.Rank(rank)}, keys); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *jobLevel) add(p codec.Proc, pairs []codec.KVal) error {
	e := codec.NewEncoder(nil)
	for _, kv := range pairs {
		l.keys[kv.Key] = true
		infos, _ := kv.Value.Infos()
		for _, info := range infos {
			l.keys[info.Key] = true
		}
		e.KValGroup(kv)
	}
	data := codec.ProcData{Proc: p, Packed: e.Bytes()}
	l.reply = data.Append(l.reply)
	return e.Err()
}
