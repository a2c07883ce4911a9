package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Proc places one process of a job.
type Proc struct {
	Rank      uint32
	Node      uint32 // index in JobLayout.Hosts
	LocalRank uint16 // number among the job's processes on its node
	AppNum    uint32
}

// JobLayout describes a job: its processes and the nodes that they are on.
type JobLayout struct {
	Nspace   string
	Hosts    []string // one name per node; nodes without processes are not the job's, but for their number
	Procs    []Proc   // one per rank, ranks from 0 without a gap, in any order
	ThisNode uint32   // the node that this server serves
	TmpDir   string   // session directory; empty: the keys that name directories are left out
	Programs []string // executable of each application, by AppNum; may be empty
	Commands []string // command line of each application, by AppNum; may be empty
}

// sessionID is the session of a job that was started outside of any session.
const sessionID = 0xffffffff

func checkNspace(name string) error {
	if name == "" || len(name) > codec.MaxNspaceLen || strings.ContainsAny(name, "\x00;") {
		return fmt.Errorf("pmix server: job: nspace %q, want 1 to %d bytes without NUL and ;", name, codec.MaxNspaceLen)
	}
	return nil
}

// check checks that a job is consistent.
func (j *JobLayout) check() error {
	if err := checkNspace(j.Nspace); err != nil {
		return err
	}
	if int64(j.ThisNode) >= int64(len(j.Hosts)) {
		return fmt.Errorf("pmix server: job %s: this node is %d, want a number below %d, the number of hosts", j.Nspace, j.ThisNode, len(j.Hosts))
	}
	if len(j.Procs) == 0 {
		return fmt.Errorf("pmix server: job %s: no processes, want at least one", j.Nspace)
	}
	seen := make([]bool, len(j.Procs))
	for _, p := range j.Procs {
		if int64(p.Rank) >= int64(len(seen)) || seen[p.Rank] {
			return fmt.Errorf("pmix server: job %s: rank %d is given twice or too large, want each of 0 to %d once", j.Nspace, p.Rank, len(seen)-1)
		}
		if int64(p.Node) >= int64(len(j.Hosts)) {
			return fmt.Errorf("pmix server: job %s: rank %d is on node %d, want a number below %d, the number of hosts",
				j.Nspace, p.Rank, p.Node, len(j.Hosts))
		}
		seen[p.Rank] = true
	}
	return nil
}

// byRank returns the processes in the order of their ranks; the job has been checked.
func (j *JobLayout) byRank() []Proc {
	procs := make([]Proc, len(j.Procs))
	for _, p := range j.Procs {
		procs[p.Rank] = p
	}
	return procs
}

// place returns the place of a rank.
func (j *JobLayout) place(rank codec.Rank) (Proc, bool) {
	for _, p := range j.Procs {
		if codec.Rank(p.Rank) == rank {
			return p, true
		}
	}
	return Proc{}, false
}

// pairs returns the keys of the job, its session, its nodes and, if there are several, its applications.
func (j *JobLayout) pairs(procs []Proc) []codec.KVal {
	pairs := j.jobKeys(procs)
	byNode := make([][]Proc, len(j.Hosts))
	for _, p := range procs {
		byNode[p.Node] = append(byNode[p.Node], p)
	}
	for node, of := range byNode {
		if len(of) > 0 {
			pairs = append(pairs, codec.KVal{Key: codec.KeyNodeInfo, Value: j.nodeInfo(of, uint32(node))})
		}
	}
	return append(pairs, appInfos(procs)...)
}

// appInfos describes each application of a job that has several, as the standard asks.
func appInfos(procs []Proc) (pairs []codec.KVal) {
	sizes, leaders := map[uint32]uint32{}, map[uint32]codec.Rank{}
	for _, p := range procs {
		if sizes[p.AppNum]++; sizes[p.AppNum] == 1 {
			leaders[p.AppNum] = codec.Rank(p.Rank)
		}
	}
	if len(sizes) == 1 {
		return nil
	}
	for _, app := range slices.Sorted(maps.Keys(sizes)) {
		pairs = append(pairs, codec.KVal{Key: codec.KeyAppInfo, Value: codec.InfosValue(
			codec.Info{Key: codec.KeyAppNum, Value: codec.Uint32Value(app)},
			codec.Info{Key: codec.KeyAppSize, Value: codec.Uint32Value(sizes[app])},
			codec.Info{Key: codec.KeyAppLdr, Value: codec.RankValue(leaders[app])},
		)})
	}
	return pairs
}

// jobKeys returns the keys of the job and its session, in the order in which libpmix sends them.
func (j *JobLayout) jobKeys(procs []Proc) []codec.KVal {
	size, apps := uint32(len(procs)), uint32(0)
	occupied := make([]bool, len(j.Hosts))
	for _, p := range procs {
		apps = max(apps, p.AppNum+1)
		occupied[p.Node] = true
	}
	var hosts []string
	for node, host := range j.Hosts {
		if occupied[node] {
			hosts = append(hosts, host)
		}
	}
	keys := []codec.KVal{
		{Key: codec.KeyJobSize, Value: codec.Uint32Value(size)},
		{Key: codec.KeyMaxProcs, Value: codec.Uint32Value(size)},
		{Key: codec.KeyNumNodes, Value: codec.Uint32Value(uint32(len(hosts)))},
		{Key: codec.KeyJobNumApps, Value: codec.Uint32Value(apps)},
		{Key: codec.KeyJobID, Value: codec.StringValue(j.Nspace)},
	}
	session := []codec.Info{
		{Key: codec.KeySessionID, Value: codec.Uint32Value(sessionID)},
		{Key: codec.KeyUnivSize, Value: codec.Uint32Value(size)},
	}
	if j.TmpDir != "" {
		keys = append(keys, codec.KVal{Key: codec.KeyNSDir, Value: codec.StringValue(j.TmpDir)})
		session = append(session, codec.Info{Key: codec.KeyTmpDir, Value: codec.StringValue(j.TmpDir)})
	}
	return append(keys,
		codec.KVal{Key: codec.KeyNodeList, Value: codec.StringValue(strings.Join(hosts, ","))},
		codec.KVal{Key: codec.KeyBfropsModule, Value: codec.StringValue(codec.Version)},
		codec.KVal{Key: codec.KeySessionInfo, Value: codec.InfosValue(session...)})
}

// nodeInfo describes a node with its processes, in the order of their ranks.
func (j *JobLayout) nodeInfo(procs []Proc, node uint32) codec.Value {
	var peers []string
	leader := codec.RankUndef
	for _, p := range procs {
		if leader == codec.RankUndef {
			leader = codec.Rank(p.Rank)
		}
		peers = append(peers, strconv.FormatUint(uint64(p.Rank), 10))
	}
	return codec.InfosValue(
		codec.Info{Key: codec.KeyHostname, Value: codec.StringValue(j.Hosts[node])},
		codec.Info{Key: codec.KeyNodeSize, Value: codec.Uint32Value(uint32(len(peers)))},
		codec.Info{Key: codec.KeyNodeID, Value: codec.Uint32Value(node)},
		codec.Info{Key: codec.KeyLocalPeers, Value: codec.StringValue(strings.Join(peers, ","))},
		codec.Info{Key: codec.KeyLocalLdr, Value: codec.RankValue(leader)},
		codec.Info{Key: codec.KeyLocalSize, Value: codec.Uint32Value(uint32(len(peers)))},
	)
}

// procKeys returns the keys of each process, by rank.
func (j *JobLayout) procKeys(procs []Proc) [][]codec.KVal {
	all := make([][]codec.KVal, len(procs))
	appRanks := map[uint32]codec.Rank{}
	for i, p := range procs {
		all[i] = []codec.KVal{
			{Key: codec.KeyGlobalRank, Value: codec.RankValue(codec.Rank(p.Rank))},
			{Key: codec.KeyLocalRank, Value: codec.Uint16Value(p.LocalRank)},
			{Key: codec.KeyNodeRank, Value: codec.Uint16Value(p.LocalRank)},
			{Key: codec.KeyAppNum, Value: codec.Uint32Value(p.AppNum)},
			{Key: codec.KeyAppRank, Value: codec.RankValue(appRanks[p.AppNum])},
			{Key: codec.KeyNodeID, Value: codec.Uint32Value(p.Node)},
			{Key: codec.KeyHostname, Value: codec.StringValue(j.Hosts[p.Node])},
		}
		if j.TmpDir != "" {
			dir := j.TmpDir + "/" + strconv.FormatUint(uint64(p.Rank), 10)
			all[i] = append(all[i], codec.KVal{Key: codec.KeyProcDir, Value: codec.StringValue(dir)})
		}
		appRanks[p.AppNum]++
	}
	return all
}
