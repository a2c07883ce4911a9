package nodes

import "github.com/goshmem/goshmem/internal/plan"

// agentOf returns what starts the daemon of a node, with the node's index among hosts.
func (r *root) agentOf(node int) (by Agent, index int, hosts []plan.Host) {
	if r.isHere(node) {
		return r.cfg.Here, 0, []plan.Host{{Name: r.hosts[node].Name}} // a login can only be that of the user
	}
	return r.cfg.Agent, node, r.hosts
}

// isHere says whether Config.Here starts the daemon of a node: on this machine it does, if there is one.
func (r *root) isHere(node int) bool {
	return node < len(r.here) && r.here[node] && r.cfg.Here.Command != nil
}
