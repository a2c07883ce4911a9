package daemon

import (
	"errors"
	"fmt"
	"sync"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The types of this file say what a root and the steps of a job of several nodes tell each other about jobs that PEs
// spawn. They are plain data, which another process can be sent.

// mostSpawned bounds the PEs of a job that is spawned on several nodes.
const mostSpawned = 1 << 20

// SpawnRequest asks the root for a further job.
type SpawnRequest struct {
	Node   int    // which asks
	ID     uint64 // by which the answer names the request: a number of the node's own
	From   pmix.Proc
	Apps   []SpawnApp
	Preput []Preput
}

// SpawnApp is a program of a further job.
type SpawnApp struct {
	App               // without Path, which each node finds
	Search     string // where Program is searched, as PATH is written; empty: PATH of Env
	WrittenDir string // Dir as the request has it; empty: Dir is that of the spawning program
	Placing    Placing
}

// Preput is a pair that PMI-1 clients find stored.
type Preput = pmi1.Pair

// SpawnAnswer answers a SpawnRequest.
type SpawnAnswer struct {
	Node   int    // which has asked
	ID     uint64 // of the request
	Number int    // of the job
	Failed string // why there is no job; empty: there is one
}

// FurtherJob is a spawned job as the root has laid it out. All nodes get the same.
type FurtherJob struct {
	Number int
	Key    [16]byte // in the headers of its segments
	Parent pmix.Proc
	Homes  []int    // by PE: the index of its node
	Bases  []int    // by node: the index of the job's first PE there with the node's agent; -1, or no entry: the agent does not serve the job
	Hosts  []string // names of all nodes as of now; nil: those of the first job's Share
	Apps   []SpawnApp
	Preput []Preput
}

// rootLine asks the root for jobs.
type rootLine struct {
	call    func(r SpawnRequest) // nil: the root starts no jobs
	closing <-chan struct{}

	mu   sync.Mutex
	last uint64                      // number of the last request
	open map[uint64]chan SpawnAnswer // by number: requests without an answer
}

// errNoRoot refuses a job where nobody can place it.
var errNoRoot = errors.New("no root places further jobs on the nodes of this job")

// ask asks for a job, waits for the answer, and returns the job's number.
func (l *rootLine) ask(r SpawnRequest) (number int, err error) {
	if l.call == nil {
		return 0, errNoRoot
	}
	answer := make(chan SpawnAnswer, 1)
	l.mu.Lock()
	l.last++
	r.ID = l.last
	if l.open == nil {
		l.open = map[uint64]chan SpawnAnswer{}
	}
	l.open[r.ID] = answer
	l.mu.Unlock()
	l.call(r)
	select {
	case a := <-answer:
		if a.Failed != "" {
			return 0, errors.New(a.Failed)
		}
		return a.Number, nil
	case <-l.closing:
		return 0, errEnding
	}
}

// answer takes an answer of the root. One to a request that has an answer already is dropped.
func (l *rootLine) answer(a SpawnAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to := l.open[a.ID]; to != nil {
		delete(l.open, a.ID)
		to <- a
	}
}

// AnswerSpawn is Node.AnswerSpawn.
func (s *Step) AnswerSpawn(a SpawnAnswer) { s.spawner.root.answer(a) }

// AddJob is Node.AddJob.
func (s *Step) AddJob(d FurtherJob) error { return s.spawner.addJob(&d) }

// StartJob is Node.StartJob.
func (s *Step) StartJob(number int) error { return s.spawner.startJob(number) }

// DropJob is Node.DropJob.
func (s *Step) DropJob(number int) error { return s.spawner.dropJob(number) }

// EndJob is Node.EndJob.
func (s *Step) EndJob(number int) { s.spawner.endJob(number) }

// HomeOf returns the index of the node that a process of a job is on; false: the step knows no such process.
func (s *Step) HomeOf(p pmix.Proc) (node int, known bool) {
	j := s.table.jobOf(p.Nspace)
	if j == nil || int64(p.Rank) >= int64(j.npes()) {
		return 0, false
	}
	return j.nodeOf(int(p.Rank)), true
}

// shareOf returns what this node has of a further job.
func (c *Config) shareOf(d *FurtherJob) (*Share, error) {
	if !c.Share.spans() {
		return nil, errors.New("the job has one node, want several for a job that its root adds")
	}
	n := 0
	for i := range d.Apps {
		if d.Apps[i].NPEs < 1 || d.Apps[i].NPEs > mostSpawned {
			return nil, fmt.Errorf("further job %d has %d PEs of %s, want 1 to %d", d.Number, d.Apps[i].NPEs, d.Apps[i].Program, mostSpawned)
		}
		n += d.Apps[i].NPEs
	}
	if n < 1 || len(d.Homes) != n || d.Number < 1 || d.Key == ([16]byte{}) {
		return nil, fmt.Errorf("further job %d has %d PEs and %d homes, want a number from 1, a key, and a home for each PE", d.Number, n, len(d.Homes))
	}
	share := c.Share
	if len(d.Hosts) > len(share.Hosts) { // nodes were added
		share.Hosts = d.Hosts
	}
	near := 0
	for pe, node := range d.Homes {
		if node < 0 || node >= len(share.Hosts) {
			return nil, fmt.Errorf("further job %d: PE %d is on node %d, want a number below %d, the number of hosts", d.Number, pe, node, len(share.Hosts))
		}
		if node == c.Share.Node {
			near++
		}
	}
	if most := min(c.MostPEs, layout.MaxLocal); near > most {
		return nil, fmt.Errorf("further job %d has %d PEs on %s, want at most %d", d.Number, near, c.Share.Hosts[c.Share.Node], most)
	}
	share.Key, share.Homes = d.Key, d.Homes
	return &share, nil
}

// findHere finds the programs that PEs of this node run. Others keep the names that the request has.
func (d *FurtherJob) findHere(share *Share) (apps []App, err error) {
	first := 0
	for i := range d.Apps {
		a := &d.Apps[i]
		app := a.App
		near := false
		for _, node := range d.Homes[first : first+a.NPEs] {
			near = near || node == share.Node
		}
		first += a.NPEs
		if near {
			if app, err = a.find(); err != nil {
				return nil, err
			}
		} else {
			app.Path = a.Program
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// addJob is Step.AddJob.
func (sp *spawner) addJob(d *FurtherJob) error {
	share, err := sp.cfg.shareOf(d)
	if err != nil {
		return err
	}
	apps, err := d.findHere(share)
	if err != nil {
		return err
	}
	j := newLocalJob(apps, share)
	j.bases = d.Bases
	if err := sp.admitFurther(j, d.Number); err != nil {
		return err
	}
	defer sp.background.spawns.Done()
	if err = sp.prepareJob(j, &spawning{from: d.Parent, preput: d.Preput}); err != nil {
		sp.ends.dropJob(j)
	}
	return err
}

// admitFurther puts a job into the table, unless none may begin any more. The caller calls spawns.Done.
func (sp *spawner) admitFurther(j *localJob, number int) error {
	sp.table.mu.Lock()
	defer sp.table.mu.Unlock()
	switch {
	case sp.table.refusing || sp.table.killed:
		return errEnding
	case sp.table.jobs[number] != nil:
		return fmt.Errorf("further job %d is there already, want another number", number)
	}
	sp.background.spawns.Add(1)
	sp.table.enlistAs(j, number)
	return nil
}

// beginWork returns a job on which the root wants something done; the caller calls spawns.Done. Close waits for that.
func (sp *spawner) beginWork(number int) (*localJob, error) {
	sp.table.mu.Lock()
	defer sp.table.mu.Unlock()
	j := sp.table.jobs[number]
	switch {
	case sp.table.refusing || sp.table.killed:
		return nil, errEnding
	case number < 1 || j == nil || j.failed || j.ended:
		return nil, fmt.Errorf("job %d is not there, or is over", number)
	}
	sp.background.spawns.Add(1)
	return j, nil
}

// startJob is Step.StartJob.
func (sp *spawner) startJob(number int) error {
	j, err := sp.beginWork(number)
	if err != nil {
		return err
	}
	defer sp.background.spawns.Done()
	if len(j.near) == 0 {
		return nil
	}
	return sp.starter.launch(j)
}

// dropJob is Step.DropJob. When the step ends, Close does that.
func (sp *spawner) dropJob(number int) error {
	j, err := sp.beginWork(number)
	if err != nil {
		return nil // there is nothing to be dropped, or Close does it
	}
	defer sp.background.spawns.Done()
	sp.ends.dropJob(j)
	return nil
}

// endJob is Step.EndJob. Close sets killed before it waits for what retires, so nothing begins to retire after that.
func (sp *spawner) endJob(number int) {
	sp.table.mu.Lock()
	defer sp.table.mu.Unlock()
	j := sp.table.jobs[number]
	if number < 1 || j == nil || j.failed || j.ended || sp.table.killed {
		return
	}
	j.ended = true
	sp.ends.retireJob(j)
}
