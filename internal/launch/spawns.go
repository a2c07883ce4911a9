package launch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
)

// spawns starts the jobs that PEs of a job of several nodes ask for: numbers and places of all jobs are the front end's
// to give. On one node the step does all that itself.
//
// # The order
//
//  1. The job gets a number, and each PE a node. Hosts without a node get one first, see growth.
//  2. The run hears of it, by an event: so all that is said of its PEs comes later.
//  3. All nodes add the job, also those without PEs of it: their processes may connect to it.
//  4. Its PEs start on all nodes, and the node that has asked is answered.
//
// If a node fails in 3 or 4, the job is dropped on all nodes, the run hears of that, and the answer is the error. A node that
// is lost meanwhile is a node that fails. The run ends the job when its last PE has ended: see Cluster.endIfOver.
type spawns struct {
	o          *Options
	mostOnNode int // PEs of a job

	mu      sync.Mutex
	cluster *Cluster // nil: the nodes have not started
	last    int      // number of the last job
	guests  guests
}

// begin gives the nodes, which may ask for jobs from now on.
func (s *spawns) begin(c *Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster = c
}

// take takes a request of a node. It does not wait. It is daemon.Hooks.Spawn.
func (s *spawns) take(r daemon.SpawnRequest) {
	s.mu.Lock()
	c := s.cluster
	s.mu.Unlock()
	if c == nil {
		return // a node without PEs asks for nothing
	}
	c.begin(func() {
		a := daemon.SpawnAnswer{Node: r.Node, ID: r.ID}
		var err error
		if a.Number, err = s.spawn(c, &r); err != nil {
			a.Failed = s.explain(c, err)
		}
		c.AnswerSpawn(a)
	})
}

// explain names the host of a node's error.
func (s *spawns) explain(c *Cluster, err error) string {
	if of := (*nodeError)(nil); errors.As(err, &of) {
		return s.o.nameOfNode(c, of.node) + ": " + of.err.Error()
	}
	return err.Error()
}

// errEnding refuses a job when the nodes are closed.
var errEnding = errors.New("the job that it would belong to is ending")

// spawn starts a job and returns its number. After an error nothing of it is left.
func (s *spawns) spawn(c *Cluster, r *daemon.SpawnRequest) (number int, err error) {
	j, err := s.layOut(c, r)
	if err != nil {
		return 0, err
	}
	about := daemon.ID{Job: j.Number}
	if !c.report(daemon.Event{Kind: daemon.Spawned, ID: about, NPEs: len(j.Homes)}) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.guests.add(j.Homes, j.Bases, -1) // no node has heard of it
		return 0, errEnding
	}
	err = c.AddJob(*j)
	if err == nil {
		err = c.StartJob(j.Number)
	}
	if err == nil {
		err = c.finishSpawn(j.Number)
	}
	if err == nil {
		return j.Number, nil
	}
	c.growth.forgetJob(j.Number) // no node that is added is told of it
	err = errors.Join(err, c.DropJob(j.Number))
	c.report(daemon.Event{Kind: daemon.Dropped, ID: about})
	c.remove(j.Number)
	return 0, err
}

// layOut gives a job its number, and its PEs their nodes. It adds nodes on hosts that have none if the job needs these.
func (s *spawns) layOut(c *Cluster, r *daemon.SpawnRequest) (*daemon.FurtherJob, error) {
	for { // each time around there are more nodes
		j, missing, err := s.tryLayOut(c, r)
		if err != nil || j != nil {
			return j, err
		}
		if err := c.growth.addNodes(missing); err != nil {
			return nil, err
		}
	}
}

// tryLayOut lays a job out if all hosts that it needs have nodes. Otherwise it returns the hosts that have none.
func (s *spawns) tryLayOut(c *Cluster, r *daemon.SpawnRequest) (j *daemon.FurtherJob, missing []plan.Node, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hosts, used, nodes, err := s.hosts(c, r.Apps)
	if err != nil {
		return nil, nil, err
	}
	first := c.homesOf(0)
	room := append(s.guests.room(first, nodes), make([]int, len(hosts)-nodes)...)
	homes, err := placeApps(r.Apps, plainHosts(hosts), used, room, s.mostOnNode)
	parents := parentNodes(r.Apps, c.homesOf)
	if err != nil && len(parents) == 1 {
		if beside, err2 := placeApps(r.Apps, plainHosts(hosts), used, besideParents(parents, len(hosts)), s.mostOnNode); err2 == nil {
			homes, err = beside, nil
		}
	}
	if err != nil {
		return nil, nil, explainRoom(err, r.Apps, room)
	}
	bases := s.guests.bases(homes, first, len(hosts))
	if node, is := isUnreached(homes, bases, parents); is {
		return nil, nil, unreachedBecause(hosts[node].Host.Name, node, countByNode(homes, len(hosts))[node], first)
	}
	for _, at := range slices.Compact(slices.Sorted(slices.Values(homes))) {
		if at >= nodes {
			missing = append(missing, hosts[at])
		}
	}
	if missing != nil {
		return nil, missing, nil
	}
	s.last++
	if s.o.Exported != nil && s.o.Layout.IsHere() && slices.ContainsFunc(homes, func(node int) bool { return node > 0 }) {
		for i := range r.Apps { // their environment is that of a PE of this machine
			r.Apps[i].Env = s.o.Exported(r.Apps[i].Env)
		}
	}
	j = &daemon.FurtherJob{Number: s.last, Parent: r.From, Homes: homes, Apps: r.Apps, Preput: r.Preput}
	for i := range nodes {
		j.Hosts = append(j.Hosts, hosts[i].Host.Name)
	}
	_, _ = rand.Read(j.Key[:]) // never fails
	j.Bases = bases[:nodes]
	s.guests.add(homes, j.Bases, 1)
	c.place(j.Number, homes)
	return j, nil, nil
}

// hosts returns the hosts that a job may use: first the hosts of the nodes, by index of the node, then hosts without a
// node. nodes is the number of nodes. used has, for each host, its number of PEs, or -1 if its node is lost.
func (s *spawns) hosts(c *Cluster, apps []daemon.SpawnApp) (hosts []plan.Node, used []int, nodes int, err error) {
	given := &plan.Allocation{Hosts: s.o.span().Hosts}
	nodes = len(given.Hosts)
	if c.growth != nil {
		var spare []plan.Node
		given.Hosts, spare = c.growth.hostsOf()
		nodes = len(given.Hosts)
		hosts = append(make([]plan.Node, nodes), spare...) // says which is this machine
		given.Hosts = append(given.Hosts, plainHosts(spare)...)
		if err := s.extend(given, apps); err != nil {
			return nil, nil, 0, err
		}
	}
	used = append(c.used()[:nodes], make([]int, len(given.Hosts)-nodes)...)
	for i, h := range given.Hosts {
		if i == len(hosts) {
			hosts = append(hosts, plan.Node{Here: c.growth != nil && s.isHere(h.Name)})
		}
		hosts[i].Host = h
	}
	return hosts, used, nodes, nil
}

// isHere says whether a host is this machine.
func (s *spawns) isHere(host string) bool { return s.o.IsHere != nil && s.o.IsHere(host) }

// extend adds the hosts that a request brings along.
func (s *spawns) extend(given *plan.Allocation, apps []daemon.SpawnApp) error {
	before := len(given.Hosts)
	for i := range apps {
		p := &apps[i].Placing
		if p.More != "" {
			list, err := plan.ParseHostList("add-host", p.More)
			if err != nil {
				return err
			}
			if err := given.Extend(list, false, runtime.NumCPU(), s.isHere); err != nil {
				return err
			}
		}
		if p.MoreFile.Name != "" {
			list, err := plan.ParseHostfile("add-hostfile "+p.MoreFile.Name, p.MoreFile.Text)
			if err != nil {
				return err
			}
			if err := given.Extend(list, true, runtime.NumCPU(), s.isHere); err != nil {
				return err
			}
		}
	}
	if len(given.Hosts) > before && s.o.Layout.Allocation.IsOfSlurm() {
		return fmt.Errorf("host %s is not in %s, want one of its hosts: no daemon can be started elsewhere", given.Hosts[before].Name, plan.SlurmName)
	}
	return nil
}

// plainHosts returns the hosts of nodes.
func plainHosts(nodes []plan.Node) (hosts []plan.Host) {
	for i := range nodes {
		hosts = append(hosts, nodes[i].Host)
	}
	return hosts
}

// placeApps returns the index of the node for each PE of some programs, which are placed one after the other. Used are the
// PEs that hosts have already, -1 for a host that is lost. Slots that are free are filled first, then PEs go to the hosts
// in turn. If no slot is free, all hosts get more slots in proportion. The request may forbid both. Programs that need agents get no more PEs on a host than its agent
// has room for; nil: there is room everywhere.
func placeApps(apps []daemon.SpawnApp, hosts []plan.Host, used, room []int, mostOnNode int) (homes []int, err error) {
	job := &plan.Job{Over: plan.OverAllowed}
	if err := setPlacing(job, apps); err != nil {
		return nil, err
	}
	var present []plan.Host
	var nodes, taken, rooms []int // by index in present
	index := map[string]int{}     // by name: the index in present
	for node := range hosts {
		if used[node] >= 0 {
			index[hosts[node].Name] = len(present)
			present, nodes, taken = append(present, hosts[node]), append(nodes, node), append(taken, used[node])
			if room != nil {
				rooms = append(rooms, room[node])
			}
		}
	}
	programs, own := job.Apps, make([]int, len(present))
	for i := range programs {
		limits := rooms
		if !needsAgents(&apps[i]) {
			limits = nil
		}
		given := &plan.Allocation{From: "the hosts of this job"}
		var kept []int
		given.Hosts, kept = limitTo(limits, present, taken, own)
		job.Used = nil
		for _, at := range kept {
			job.Used = append(job.Used, taken[at])
		}
		if job.Over == plan.OverAllowed {
			addSlots(given.Hosts, job.Used)
		}
		job.Apps, job.Given = programs[i:i+1], given
		l, err := job.Lay()
		if err != nil {
			return nil, err
		}
		for _, home := range l.Homes {
			at := index[l.Nodes[home].Host.Name]
			homes = append(homes, nodes[at])
			taken[at]++
			if own[at]++; own[at] > mostOnNode {
				return nil, fmt.Errorf("more PEs on %s than a node takes of a job, want at most %d", present[at].Name, mostOnNode)
			}
		}
	}
	return homes, nil
}

// addSlots multiplies the slots of hosts until one is free, or hosts take no more PEs. So jobs that come one after the other
// are spread over the hosts.
func addSlots(hosts []plan.Host, used []int) {
	own := slices.Clone(hosts)
	for factor := 2; ; factor++ {
		grows := false
		for i := range hosts {
			if hosts[i].Slots > used[i] {
				return
			}
		}
		for i := range hosts {
			slots := own[i].Slots * factor
			if own[i].MaxSlots > 0 {
				slots = min(slots, own[i].MaxSlots)
			}
			grows = grows || slots > hosts[i].Slots
			hosts[i].Slots = slots
		}
		if !grows {
			return
		}
	}
}

// chooseHosts says in the plan's terms which hosts a program may use: what the request says of hosts of the job, otherwise
// the hosts that it brings along.
func chooseHosts(app *plan.App, p *daemon.Placing) (err error) {
	list, from := p.Hosts, "hosts "
	file, of := p.File, "hostfile "
	if list == "" && file.Name == "" {
		list, from, file, of = p.More, "add-host ", p.MoreFile, "add-hostfile "
	}
	if list != "" {
		app.ListFrom = from + list
		if app.List, err = plan.ParseHostList(strings.TrimSpace(from), list); err != nil {
			return err
		}
	}
	if file.Name != "" {
		app.FileFrom = of + file.Name
		app.File, err = plan.ParseHostfile(app.FileFrom, file.Text)
	}
	return err
}

// setPlacing says in the plan's terms what programs ask for. What one of them says of the order holds for all.
func setPlacing(job *plan.Job, apps []daemon.SpawnApp) error {
	var order daemon.Placing // the words that hold for all
	for i := range apps {
		a := &apps[i]
		app := plan.App{PEs: a.NPEs}
		if err := chooseHosts(&app, &a.Placing); err != nil {
			return err
		}
		if a.Placing.MapBy != "" {
			m, err := plan.ParseMapBy(a.Placing.MapBy)
			switch {
			case err != nil:
				return fmt.Errorf("map by %w", err)
			case m.PerUnit > 0 && m.Unit != plan.BindNone:
				return fmt.Errorf("map by %q, want ppr:N:node: PEs of spawned jobs are not bound", a.Placing.MapBy)
			case order.MapBy != "" && order.MapBy != a.Placing.MapBy:
				return fmt.Errorf("map by %q and %q, want one order for all programs of a job", order.MapBy, a.Placing.MapBy)
			}
			order.MapBy, app.PerNode, job.By = a.Placing.MapBy, m.PerUnit, m.By
			if m.Over != plan.OverDefault {
				job.Over = m.Over
			}
		}
		if a.Placing.RankBy != "" {
			rank, unit, err := plan.ParseRank(a.Placing.RankBy)
			switch {
			case err != nil:
				return fmt.Errorf("rank by %w", err)
			case unit != plan.BindDefault:
				return fmt.Errorf("rank by %q, want slot or node: PEs of spawned jobs are not bound", a.Placing.RankBy)
			case order.RankBy != "" && order.RankBy != a.Placing.RankBy:
				return fmt.Errorf("rank by %q and %q, want one order for all programs of a job", order.RankBy, a.Placing.RankBy)
			}
			order.RankBy, job.Rank = a.Placing.RankBy, rank
		}
		job.Apps = append(job.Apps, app)
	}
	return nil
}
