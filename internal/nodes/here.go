package nodes

import "github.com/goshmem/goshmem/internal/plan"

// agentOf returns what starts the daemon of a node, with the node's index among hosts.
func (r *root) agentOf(node int) (by Agent, index int, hosts []plan.Host) {
	if r.isHere(node) {
		return r.cfg.Here, 0, r.hosts[node : node+1]
	}
	return r.cfg.Agent, node, r.hosts
}

// isHere says whether Config.Here starts the daemon of a node. It does so on this machine, unless a user or a port is
// given, which only the other agents know.
func (r *root) isHere(node int) bool {
	host := &r.hosts[node]
	return node < len(r.here) && r.here[node] && r.cfg.Here.Command != nil && host.User == "" && host.Port == 0
}
