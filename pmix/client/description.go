package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// jobDescription is what a server says about a job, sorted by subject. It does not change.
type jobDescription struct {
	job   map[string]codec.Value                // keys of the job and its session
	procs map[codec.Rank]map[string]codec.Value // keys of processes
	blobs map[codec.Rank][]byte                 // packed keys of other processes, unpacked on demand: most are never used
	nodes []map[string]codec.Value              // keys of nodes

	size      int          // number of processes
	localRank int          // this process's number among those on its node
	nodeID    int          // this process's node
	peers     []codec.Rank // the processes on this node
}

// keyProcData holds an array of one process's keys. It is the other form, besides codec.KeyProcBlob, in which servers
// describe processes.
const keyProcData = "pmix.pdata"

func emptyJobDescription() *jobDescription {
	return &jobDescription{job: map[string]codec.Value{}, procs: map[codec.Rank]map[string]codec.Value{}, blobs: map[codec.Rank][]byte{}}
}

func newJobDescription(info *codec.JobInfo, self codec.Rank) (*jobDescription, error) {
	j := emptyJobDescription()
	for _, kv := range info.Pairs {
		if err := j.add(kv, self); err != nil {
			return nil, fmt.Errorf("pmix init: description of the job: %w", err)
		}
	}
	size, ok := number(j.job, codec.KeyJobSize)
	if !ok || size == 0 {
		return nil, fmt.Errorf("pmix init: description of the job: no %s, want the number of processes", codec.KeyJobSize)
	}
	j.size = size
	j.localRank, _ = number(j.procs[self], codec.KeyLocalRank)
	j.nodeID, _ = number(j.procs[self], codec.KeyNodeID)
	return j, j.findPeers(self)
}

// add adds a key of the job. Keys of self are unpacked at once, those of other processes when they are looked up.
func (j *jobDescription) add(kv codec.KVal, self codec.Rank) error {
	switch kv.Key {
	case codec.KeyProcBlob:
		content, _ := kv.Value.Bytes()
		rank, err := codec.DecodeProcBlobRank(content)
		if err != nil {
			return err
		}
		if rank != self {
			j.blobs[rank] = content
			return nil
		}
		blob, err := codec.DecodeProcBlob(content)
		if err != nil {
			return err
		}
		for _, p := range blob.Pairs {
			setOfRank(j.procs, blob.Rank, p)
		}
	case keyProcData:
		infos, _ := kv.Value.Infos()
		j.addProcInfos(infos)
	case codec.KeySessionInfo:
		infos, _ := kv.Value.Infos()
		for _, info := range infos {
			j.job[info.Key] = info.Value
		}
	case codec.KeyNodeInfo:
		infos, _ := kv.Value.Infos()
		node := map[string]codec.Value{}
		for _, info := range infos {
			node[info.Key] = info.Value
		}
		j.nodes = append(j.nodes, node)
	default:
		j.job[kv.Key] = kv.Value
	}
	return nil
}

func (j *jobDescription) addProcInfos(infos []codec.Info) {
	rank := codec.RankUndef
	for _, info := range infos {
		if r, ok := info.Value.Uint64(); ok && info.Key == codec.KeyRank {
			rank = codec.Rank(r)
		}
	}
	for _, info := range infos {
		setOfRank(j.procs, rank, codec.KVal{Key: info.Key, Value: info.Value})
	}
}

func setOfRank(m map[codec.Rank]map[string]codec.Value, rank codec.Rank, kv codec.KVal) {
	if m[rank] == nil {
		m[rank] = map[string]codec.Value{}
	}
	m[rank][kv.Key] = kv.Value
}

func number(m map[string]codec.Value, key string) (int, bool) {
	v, ok := m[key].Uint64()
	return int(min(v, 1<<31)), ok
}

// findPeers sets peers to the processes on the node of self.
func (j *jobDescription) findPeers(self codec.Rank) error {
	list, ok := j.job[codec.KeyLocalPeers].Str()
	for _, node := range j.nodes {
		if id, found := number(node, codec.KeyNodeID); found && id == j.nodeID {
			if l, found := node[codec.KeyLocalPeers].Str(); found {
				list, ok = l, true
			}
		}
	}
	if !ok {
		j.peers = []codec.Rank{self}
		return nil
	}
	for field := range strings.SplitSeq(list, ",") {
		rank, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return fmt.Errorf("pmix init: %s is %q, want ranks and commas", codec.KeyLocalPeers, list)
		}
		j.peers = append(j.peers, codec.Rank(rank))
	}
	return nil
}

// find looks a key up: about one process, or for codec.RankWildcard about the job, its session and this node.
func (j *jobDescription) find(rank codec.Rank, key string) (codec.Value, bool) {
	if rank != codec.RankWildcard {
		if v, ok := j.procs[rank][key]; ok {
			return v, ok
		}
		return findInBlob(j.blobs[rank], key)
	}
	if v, ok := j.job[key]; ok {
		return v, true
	}
	for _, node := range j.nodes {
		if id, ok := number(node, codec.KeyNodeID); ok && id == j.nodeID {
			v, ok := node[key]
			return v, ok
		}
	}
	return codec.Value{}, false
}

// findInBlob looks a key up in the packed keys of a process. A malformed blob holds no key.
func findInBlob(blob []byte, key string) (codec.Value, bool) {
	if blob == nil {
		return codec.Value{}, false
	}
	p, err := codec.DecodeProcBlob(blob)
	if err != nil {
		return codec.Value{}, false
	}
	for _, kv := range slices.Backward(p.Pairs) { // of a key given twice, the last value is valid
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return codec.Value{}, false
}

// addData adds a part of the answer to a get: the keys of the job, or of one process.
func (j *jobDescription) addData(data *codec.ProcData) error {
	pairs, err := data.Pairs()
	if err != nil {
		return err
	}
	for _, kv := range pairs {
		if data.Proc.Rank != codec.RankWildcard {
			setOfRank(j.procs, data.Proc.Rank, kv)
			continue
		}
		if err := j.add(kv, codec.RankUndef); err != nil {
			return err
		}
	}
	return nil
}
