package nodes

import (
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/plan"
)

// The daemon of this machine is started without ssh.
func TestAgentOfThisMachine(t *testing.T) {
	const local, ssh = "oshrun daemon --stdin", "ssh -o "
	hosts := []plan.Host{{Name: "a"}, {Name: "b"}, {Name: "c", User: "me"}, {Name: "d", Port: 2222}}
	for _, x := range []struct {
		here  []bool
		agent Agent // Config.Here
		want  [4]string
	}{
		{[]bool{false, true, true, true}, LocalAgent("oshrun"), [4]string{ssh, local, local, local}},
		{[]bool{true}, LocalAgent("oshrun"), [4]string{local, ssh, ssh, ssh}},
		{[]bool{true, true, true, true}, Agent{}, [4]string{ssh, ssh, ssh, ssh}},
	} {
		r := &root{hosts: hosts, here: x.here, cfg: Config{Agent: SSHAgent("oshrun"), Here: x.agent}}
		for node, want := range x.want {
			by, index, of := r.agentOf(node)
			argv, err := by.argv(index, of)
			if got := strings.Join(argv, " "); err != nil || !strings.HasPrefix(got, want) || of[index].Name != hosts[node].Name {
				t.Errorf("here %v, node %d: %q for %s, %v, want %q", x.here, node, got, of[index].Name, err, want)
			}
		}
	}
}
