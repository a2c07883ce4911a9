package launch

// Span says on which nodes the PEs of the first job run. The zero Span has all PEs on one node, that of this process.
type Span struct {
	Hosts []string // the nodes' names, by index
	Homes []int    // by PE: the index of its node
}

// span returns the nodes of the layout.
func (o *Options) span() (s Span) {
	if o.Layout.IsHere() {
		return s
	}
	for i := range o.Layout.Nodes {
		s.Hosts = append(s.Hosts, o.Layout.Nodes[i].Host.Name)
	}
	s.Homes = o.Layout.Homes
	return s
}

// nodes returns the number of nodes.
func (s Span) nodes() int { return max(1, len(s.Hosts)) }

// mostOnNode returns how many PEs the node with most of them has, in a job of n PEs.
func (s Span) mostOnNode(n int) (most int) {
	if s.nodes() == 1 {
		return n
	}
	count := make([]int, len(s.Hosts))
	for _, node := range s.Homes {
		count[node]++
		most = max(most, count[node])
	}
	return most
}
