package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// jobDescription is what a server says about a job, sorted by subject. It does not change.
type jobDescription struct {
	job   map[string]wire.Value               // keys of the job and its session
	procs map[wire.Rank]map[string]wire.Value // keys of processes
	blobs map[wire.Rank][]byte                // packed keys of other processes, unpacked on demand: most are never used
	nodes []map[string]wire.Value             // keys of nodes

	size      int         // number of processes
	localRank int         // this process's number among those on its node
	nodeID    int         // this process's node
	peers     []wire.Rank // the processes on this node
}

// keyProcData holds an array of one process's keys. It is the other form, besides wire.KeyProcBlob, in which servers
// describe processes.
const keyProcData = "pmix.pdata"

func emptyJobDescription() *jobDescription {
	return &jobDescription{job: map[string]wire.Value{}, procs: map[wire.Rank]map[string]wire.Value{}, blobs: map[wire.Rank][]byte{}}
}

func newJobDescription(info *wire.JobInfo, self wire.Rank) (*jobDescription, error) {
	j := emptyJobDescription()
	for _, kv := range info.Pairs {
		if err := j.add(kv, self); err != nil {
			return nil, fmt.Errorf("pmix init: description of the job: %w", err)
		}
	}
	size, ok := number(j.job, wire.KeyJobSize)
	if !ok || size == 0 {
		return nil, fmt.Errorf("pmix init: description of the job: no %s, want the number of processes", wire.KeyJobSize)
	}
	j.size = size
	j.localRank, _ = number(j.procs[self], wire.KeyLocalRank)
	j.nodeID, _ = number(j.procs[self], wire.KeyNodeID)
	return j, j.findPeers(self)
}

// add adds a key of the job. Keys of self are unpacked at once, those of other processes when they are looked up.
func (j *jobDescription) add(kv wire.KVal, self wire.Rank) error {
	switch kv.Key {
	case wire.KeyProcBlob:
		content, _ := kv.Value.Bytes()
		rank, err := wire.DecodeProcBlobRank(content)
		if err != nil {
			return err
		}
		if rank != self {
			j.blobs[rank] = content
			return nil
		}
		blob, err := wire.DecodeProcBlob(content)
		if err != nil {
			return err
		}
		for _, p := range blob.Pairs {
			setOfRank(j.procs, blob.Rank, p)
		}
	case keyProcData:
		infos, _ := kv.Value.Infos()
		j.addProcInfos(infos)
	case wire.KeySessionInfo:
		infos, _ := kv.Value.Infos()
		for _, info := range infos {
			j.job[info.Key] = info.Value
		}
	case wire.KeyNodeInfo:
		infos, _ := kv.Value.Infos()
		node := map[string]wire.Value{}
		for _, info := range infos {
			node[info.Key] = info.Value
		}
		j.nodes = append(j.nodes, node)
	default:
		j.job[kv.Key] = kv.Value
	}
	return nil
}

func (j *jobDescription) addProcInfos(infos []wire.Info) {
	rank := wire.RankUndef
	for _, info := range infos {
		if r, ok := info.Value.Uint64(); ok && info.Key == wire.KeyRank {
			rank = wire.Rank(r)
		}
	}
	for _, info := range infos {
		setOfRank(j.procs, rank, wire.KVal{Key: info.Key, Value: info.Value})
	}
}

func setOfRank(m map[wire.Rank]map[string]wire.Value, rank wire.Rank, kv wire.KVal) {
	if m[rank] == nil {
		m[rank] = map[string]wire.Value{}
	}
	m[rank][kv.Key] = kv.Value
}

func number(m map[string]wire.Value, key string) (int, bool) {
	v, ok := m[key].Uint64()
	return int(min(v, 1<<31)), ok
}

// findPeers sets peers to the processes on the node of self.
func (j *jobDescription) findPeers(self wire.Rank) error {
	list, ok := j.job[wire.KeyLocalPeers].Str()
	for _, node := range j.nodes {
		if id, found := number(node, wire.KeyNodeID); found && id == j.nodeID {
			if l, found := node[wire.KeyLocalPeers].Str(); found {
				list, ok = l, true
			}
		}
	}
	if !ok {
		j.peers = []wire.Rank{self}
		return nil
	}
	for field := range strings.SplitSeq(list, ",") {
		rank, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return fmt.Errorf("pmix init: %s is %q, want ranks and commas", wire.KeyLocalPeers, list)
		}
		j.peers = append(j.peers, wire.Rank(rank))
	}
	return nil
}

// find looks a key up: about one process, or for wire.RankWildcard about the job, its session and this node.
func (j *jobDescription) find(rank wire.Rank, key string) (wire.Value, bool) {
	if rank != wire.RankWildcard {
		if v, ok := j.procs[rank][key]; ok {
			return v, ok
		}
		return findInBlob(j.blobs[rank], key)
	}
	if v, ok := j.job[key]; ok {
		return v, true
	}
	for _, node := range j.nodes {
		if id, ok := number(node, wire.KeyNodeID); ok && id == j.nodeID {
			v, ok := node[key]
			return v, ok
		}
	}
	return wire.Value{}, false
}

// findInBlob looks a key up in the packed keys of a process. A malformed blob holds no key.
func findInBlob(blob []byte, key string) (wire.Value, bool) {
	if blob == nil {
		return wire.Value{}, false
	}
	p, err := wire.DecodeProcBlob(blob)
	if err != nil {
		return wire.Value{}, false
	}
	for _, kv := range slices.Backward(p.Pairs) { // of a key given twice, the last value is valid
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return wire.Value{}, false
}

// addData adds a part of the answer to a get: the keys of the job, or of one process.
func (j *jobDescription) addData(data *wire.ProcData) error {
	pairs, err := data.Pairs()
	if err != nil {
		return err
	}
	for _, kv := range pairs {
		if data.Proc.Rank != wire.RankWildcard {
			setOfRank(j.procs, data.Proc.Rank, kv)
			continue
		}
		if err := j.add(kv, wire.RankUndef); err != nil {
			return err
		}
	}
	return nil
}
