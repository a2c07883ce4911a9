package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Proc places one process of a job.
type Proc struct {
	Rank      uint32
	Node      uint32 // index in Job.Hosts
	LocalRank uint16 // number among the job's processes on its node
	AppNum    uint32
}

// Job describes the processes that a server's clients belong to, on all nodes.
type Job struct {
	Nspace   string
	Hosts    []string // one name per node
	Procs    []Proc   // one per rank, ranks from 0 without a gap, in any order
	ThisNode uint32   // the node that this server serves
	TmpDir   string   // session directory; empty: the keys that name directories are left out
	Programs []string // executable of each application, by AppNum; may be empty
	Commands []string // command line of each, the same
}

// sessionID is what a client reads when it was started outside of any session.
const sessionID = 0xffffffff

func checkNspace(name string) error {
	if name == "" || len(name) > wire.MaxNspaceLen || strings.ContainsAny(name, "\x00;") {
		return fmt.Errorf("pmix server: job: nspace %q, want 1 to %d bytes without NUL and ;", name, wire.MaxNspaceLen)
	}
	return nil
}

// check says what is wrong with a job.
func (j *Job) check() error {
	if err := checkNspace(j.Nspace); err != nil {
		return err
	}
	if int64(j.ThisNode) >= int64(len(j.Hosts)) {
		return fmt.Errorf("pmix server: job %s: this node %d, want less than the %d hosts", j.Nspace, j.ThisNode, len(j.Hosts))
	}
	if len(j.Procs) == 0 {
		return fmt.Errorf("pmix server: job %s: no processes, want at least one", j.Nspace)
	}
	seen := make([]bool, len(j.Procs))
	for _, p := range j.Procs {
		if int64(p.Rank) >= int64(len(seen)) || seen[p.Rank] {
			return fmt.Errorf("pmix server: job %s: rank %d, want each of 0 to %d once", j.Nspace, p.Rank, len(seen)-1)
		}
		if int64(p.Node) >= int64(len(j.Hosts)) {
			return fmt.Errorf("pmix server: job %s: rank %d on node %d, want less than the %d hosts",
				j.Nspace, p.Rank, p.Node, len(j.Hosts))
		}
		seen[p.Rank] = true
	}
	return nil
}

// byRank returns the processes in the order of their ranks; the job has been checked.
func (j *Job) byRank() []Proc {
	procs := make([]Proc, len(j.Procs))
	for _, p := range j.Procs {
		procs[p.Rank] = p
	}
	return procs
}

// place returns the place of a rank.
func (j *Job) place(rank wire.Rank) (Proc, bool) {
	for _, p := range j.Procs {
		if wire.Rank(p.Rank) == rank {
			return p, true
		}
	}
	return Proc{}, false
}

// pairs are the keys of the job, its session, its nodes and, if there are several, its applications.
func (j *Job) pairs(procs []Proc) []wire.KVal {
	pairs := j.jobKeys(procs)
	for node := range j.Hosts {
		pairs = append(pairs, wire.KVal{Key: wire.KeyNodeInfo, Value: j.nodeInfo(procs, uint32(node))})
	}
	return append(pairs, appInfos(procs)...)
}

// appInfos describes each application of a job of several, as the standard asks.
func appInfos(procs []Proc) (pairs []wire.KVal) {
	sizes, leaders := map[uint32]uint32{}, map[uint32]wire.Rank{}
	for _, p := range procs {
		if sizes[p.AppNum]++; sizes[p.AppNum] == 1 {
			leaders[p.AppNum] = wire.Rank(p.Rank)
		}
	}
	if len(sizes) == 1 {
		return nil
	}
	for _, app := range slices.Sorted(maps.Keys(sizes)) {
		pairs = append(pairs, wire.KVal{Key: wire.KeyAppInfo, Value: wire.InfosValue(
			wire.Info{Key: wire.KeyAppNum, Value: wire.Uint32Value(app)},
			wire.Info{Key: wire.KeyAppSize, Value: wire.Uint32Value(sizes[app])},
			wire.Info{Key: wire.KeyAppLdr, Value: wire.RankValue(leaders[app])},
		)})
	}
	return pairs
}

// jobKeys are the keys of the job and its session, in the order in which libpmix sends them.
func (j *Job) jobKeys(procs []Proc) []wire.KVal {
	size, apps := uint32(len(procs)), uint32(0)
	for _, p := range procs {
		apps = max(apps, p.AppNum+1)
	}
	keys := []wire.KVal{
		{Key: wire.KeyJobSize, Value: wire.Uint32Value(size)},
		{Key: wire.KeyMaxProcs, Value: wire.Uint32Value(size)},
		{Key: wire.KeyNumNodes, Value: wire.Uint32Value(uint32(len(j.Hosts)))},
		{Key: wire.KeyJobNumApps, Value: wire.Uint32Value(apps)},
		{Key: wire.KeyJobID, Value: wire.StringValue(j.Nspace)},
	}
	session := []wire.Info{
		{Key: wire.KeySessionID, Value: wire.Uint32Value(sessionID)},
		{Key: wire.KeyUnivSize, Value: wire.Uint32Value(size)},
	}
	if j.TmpDir != "" {
		keys = append(keys, wire.KVal{Key: wire.KeyNSDir, Value: wire.StringValue(j.TmpDir)})
		session = append(session, wire.Info{Key: wire.KeyTmpDir, Value: wire.StringValue(j.TmpDir)})
	}
	return append(keys,
		wire.KVal{Key: wire.KeyNodeList, Value: wire.StringValue(strings.Join(j.Hosts, ","))},
		wire.KVal{Key: wire.KeyBfropsModule, Value: wire.StringValue(wire.Version)},
		wire.KVal{Key: wire.KeySessionInfo, Value: wire.InfosValue(session...)})
}

func (j *Job) nodeInfo(procs []Proc, node uint32) wire.Value {
	var peers []string
	leader := wire.RankUndef
	for _, p := range procs {
		if p.Node != node {
			continue
		}
		if leader == wire.RankUndef {
			leader = wire.Rank(p.Rank)
		}
		peers = append(peers, strconv.FormatUint(uint64(p.Rank), 10))
	}
	return wire.InfosValue(
		wire.Info{Key: wire.KeyHostname, Value: wire.StringValue(j.Hosts[node])},
		wire.Info{Key: wire.KeyNodeSize, Value: wire.Uint32Value(uint32(len(peers)))},
		wire.Info{Key: wire.KeyNodeID, Value: wire.Uint32Value(node)},
		wire.Info{Key: wire.KeyLocalPeers, Value: wire.StringValue(strings.Join(peers, ","))},
		wire.Info{Key: wire.KeyLocalLdr, Value: wire.RankValue(leader)},
		wire.Info{Key: wire.KeyLocalSize, Value: wire.Uint32Value(uint32(len(peers)))},
	)
}

// procKeys are the keys of each process, by rank.
func (j *Job) procKeys(procs []Proc) [][]wire.KVal {
	all := make([][]wire.KVal, len(procs))
	appRanks := map[uint32]wire.Rank{}
	for i, p := range procs {
		all[i] = []wire.KVal{
			{Key: wire.KeyGlobalRank, Value: wire.RankValue(wire.Rank(p.Rank))},
			{Key: wire.KeyLocalRank, Value: wire.Uint16Value(p.LocalRank)},
			{Key: wire.KeyNodeRank, Value: wire.Uint16Value(p.LocalRank)},
			{Key: wire.KeyAppNum, Value: wire.Uint32Value(p.AppNum)},
			{Key: wire.KeyAppRank, Value: wire.RankValue(appRanks[p.AppNum])},
			{Key: wire.KeyNodeID, Value: wire.Uint32Value(p.Node)},
			{Key: wire.KeyHostname, Value: wire.StringValue(j.Hosts[p.Node])},
		}
		if j.TmpDir != "" {
			dir := j.TmpDir + "/" + strconv.FormatUint(uint64(p.Rank), 10)
			all[i] = append(all[i], wire.KVal{Key: wire.KeyProcDir, Value: wire.StringValue(dir)})
		}
		appRanks[p.AppNum]++
	}
	return all
}
