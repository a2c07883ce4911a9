package server

import (
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// description is what a job's processes, and those of other jobs, are told about it.
type description struct {
	nspace string
	pairs  []wire.KVal   // of the job, its session and its nodes
	procs  [][]wire.KVal // of each process, by rank
}

// describe says everything about a job. The parent is the process that spawned it, none if its namespace is empty.
func (j *Job) describe(parent wire.Proc) *description {
	procs := j.byRank()
	d := &description{nspace: j.Nspace, pairs: j.pairs(procs), procs: j.procKeys(procs)}
	if parent.Nspace == "" {
		return d
	}
	// Some clients ask for these with their own rank, some with the wildcard.
	origin := []wire.KVal{
		{Key: wire.KeySpawned, Value: wire.BoolValue(true)}, {Key: wire.KeyParentID, Value: wire.ProcValue(parent)},
	}
	d.pairs = append(d.pairs, origin...)
	for i := range d.procs {
		d.procs[i] = append(d.procs[i], origin...)
	}
	return d
}

// info packs the description in the form in which a job's own processes get it, and those who connect to it or spawned
// it.
func (d *description) info() ([]byte, error) {
	info := wire.JobInfo{Nspace: d.nspace, Pairs: slices.Clip(d.pairs)}
	for rank, keys := range d.procs {
		blob := wire.ProcBlob{Rank: wire.Rank(rank), Pairs: keys}
		v, err := blob.Value()
		if err != nil {
			return nil, err
		}
		info.Pairs = append(info.Pairs, wire.KVal{Key: wire.KeyProcBlob, Value: v})
	}
	return info.Append(nil)
}

// jobLevel is the description in the form in which a get finds it.
type jobLevel struct {
	keys  map[string]bool // what is in it, of the job or of any process
	reply []byte
}

func (d *description) level() (*jobLevel, error) {
	l := &jobLevel{keys: map[string]bool{}, reply: wire.AppendStatusReply(nil, wire.StatusSuccess)}
	if err := l.add(wire.Proc{Nspace: d.nspace, Rank: wire.RankWildcard}, d.pairs); err != nil {
		return nil, err
	}
	for rank, keys := range d.procs {
		if err := l.add(wire.Proc{Nspace: d.nspace, Rank: wire.Rank(rank)}, keys); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *jobLevel) add(p wire.Proc, pairs []wire.KVal) error {
	e := wire.NewEncoder(nil)
	for _, kv := range pairs {
		l.keys[kv.Key] = true
		infos, _ := kv.Value.Infos()
		for _, info := range infos {
			l.keys[info.Key] = true
		}
		e.KValGroup(kv)
	}
	data := wire.ProcData{Proc: p, Packed: e.Bytes()}
	l.reply = data.Append(l.reply)
	return e.Err()
}
