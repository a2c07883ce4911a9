package nodes

import "github.com/goshmem/goshmem/internal/plan"

// agentOf returns what starts the daemon of a node, with the node's index among hosts. On this machine Config.Here does,
// unless a user or a port is given, which only the other agents know.
func (r *root) agentOf(node int) (by Agent, index int, hosts []plan.Host) {
	own := &r.hosts[node]
	if node < len(r.here) && r.here[node] && r.cfg.Here.Command != nil && own.User == "" && own.Port == 0 {
		return r.cfg.Here, 0, r.hosts[node : node+1]
	}
	return r.cfg.Agent, node, r.hosts
}
