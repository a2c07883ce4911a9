package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// jobInfo is the job's description, sorted by what it is about. It does not change.
type jobInfo struct {
	job   map[string]wire.Value // the job and its session
	procs map[wire.Rank]map[string]wire.Value
	blobs map[wire.Rank][]byte // of other processes, read when somebody asks: most are never asked about
	nodes []map[string]wire.Value

	size      int
	localRank int
	nodeID    int
	peers     []wire.Rank
}

// keyProcData holds an array of one process's keys, the other form in which servers describe processes.
const keyProcData = "pmix.pdata"

func emptyJobInfo() *jobInfo {
	return &jobInfo{job: map[string]wire.Value{}, procs: map[wire.Rank]map[string]wire.Value{}, blobs: map[wire.Rank][]byte{}}
}

func newJobInfo(info *wire.JobInfo, self wire.Rank) (*jobInfo, error) {
	j := emptyJobInfo()
	for _, kv := range info.Pairs {
		if err := j.add(kv, self); err != nil {
			return nil, fmt.Errorf("pmix init: description of the job: %w", err)
		}
	}
	size, ok := j.number(j.job, wire.KeyJobSize)
	if !ok || size == 0 {
		return nil, fmt.Errorf("pmix init: description of the job: no %s, want the number of processes", wire.KeyJobSize)
	}
	j.size = size
	j.localRank, _ = j.number(j.procs[self], wire.KeyLocalRank)
	j.nodeID, _ = j.number(j.procs[self], wire.KeyNodeID)
	return j, j.findPeers(self)
}

func (j *jobInfo) add(kv wire.KVal, self wire.Rank) error {
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
			set(j.procs, blob.Rank, p)
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

func (j *jobInfo) addProcInfos(infos []wire.Info) {
	rank := wire.RankUndef
	for _, info := range infos {
		if r, ok := info.Value.Uint64(); ok && info.Key == wire.KeyRank {
			rank = wire.Rank(r)
		}
	}
	for _, info := range infos {
		set(j.procs, rank, wire.KVal{Key: info.Key, Value: info.Value})
	}
}

func set(m map[wire.Rank]map[string]wire.Value, rank wire.Rank, kv wire.KVal) {
	if m[rank] == nil {
		m[rank] = map[string]wire.Value{}
	}
	m[rank][kv.Key] = kv.Value
}

func (*jobInfo) number(m map[string]wire.Value, key string) (int, bool) {
	v, ok := m[key].Uint64()
	return int(min(v, 1<<31)), ok
}

// findPeers reads which processes share this node.
func (j *jobInfo) findPeers(self wire.Rank) error {
	list, ok := j.job[wire.KeyLocalPeers].Str()
	for _, node := range j.nodes {
		if id, found := j.number(node, wire.KeyNodeID); found && id == j.nodeID {
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

func (j *jobInfo) lookup(rank wire.Rank, key string) (wire.Value, bool) {
	if rank != wire.RankWildcard {
		if v, ok := j.procs[rank][key]; ok {
			return v, ok
		}
		return lookInto(j.blobs[rank], key)
	}
	if v, ok := j.job[key]; ok {
		return v, true
	}
	for _, node := range j.nodes {
		if id, ok := j.number(node, wire.KeyNodeID); ok && id == j.nodeID {
			v, ok := node[key]
			return v, ok
		}
	}
	return wire.Value{}, false
}

// lookInto looks a key up in what a server says of another process. One that
// makes no sense holds none.
func lookInto(blob []byte, key string) (wire.Value, bool) {
	if blob == nil {
		return wire.Value{}, false
	}
	p, err := wire.DecodeProcBlob(blob)
	if err != nil {
		return wire.Value{}, false
	}
	for _, kv := range slices.Backward(p.Pairs) { // the last one counts
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return wire.Value{}, false
}

// Size returns the number of processes of the job.
func (c *Client) Size() int { return c.job.size }

// LocalRank returns this process's number among those of the job on its node.
func (c *Client) LocalRank() int { return c.job.localRank }

// NodeID returns the number of this process's node in the job.
func (c *Client) NodeID() int { return c.job.nodeID }

// LocalPeers returns the ranks on this node, this process's among them. The caller must not change it.
func (c *Client) LocalPeers() []wire.Rank { return c.job.peers }

// JobInfo looks a key up in the job's description: about one process, or for wire.RankWildcard about the job, its
// session and this node.
func (c *Client) JobInfo(rank wire.Rank, key string) (wire.Value, bool) {
	return c.job.lookup(rank, key)
}
