package nodetest

import (
	"os"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// The node of this process passes the tests of nodes.
func TestStep(t *testing.T) {
	Test(t, func(cfg daemon.Config, hooks daemon.Hooks) (launch.Node, error) { return daemon.Start(cfg, hooks) })
}

// A cluster of one node behaves like that node.
func TestCluster(t *testing.T) {
	Test(t, func(cfg daemon.Config, hooks daemon.Hooks) (launch.Node, error) {
		step, err := daemon.Start(cfg, hooks)
		if err != nil {
			return nil, err
		}
		return launch.NewCluster([]launch.Node{step}, nil), nil
	})
}
