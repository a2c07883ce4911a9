package nodes

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/detector/responder"
)

// A daemon that is killed is lost, whoever answers for its node, and no other one is.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, tier := range []responder.Tier{0, responder.Process, responder.User} {
		t.Run(tier.String(), func(t *testing.T) {
			j := newJob(t, 3, LocalAgent(oshrun(t)))
			j.cfg.Heartbeat, j.cfg.Tier = 20*time.Millisecond, tier
			if err := j.start(t.Context()); err != nil {
				if tier == responder.Process && strings.Contains(err.Error(), "CAP_SYS_NICE") {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			defer func() {
				for _, n := range j.nodes {
					_ = n.Close() // that of the lost one has an error
				}
			}()
			await(t, j.log, "heartbeat: ")
			if err := syscall.Kill(j.member(2).agent.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			t.Log(j.awaitLoss(2))
			for i, m := range j.nodes[:2] {
				if j.member(i).isLost() {
					t.Errorf("node %d is lost, too: %v", i, m)
				}
			}
		})
	}
}

// A tier that does not exist on a node ends the start, and says so.
func TestWatchOfNoTier(t *testing.T) {
	t.Parallel()
	j := newJob(t, 2, LocalAgent(oshrun(t)))
	j.cfg.Heartbeat, j.cfg.Tier = time.Second, responder.User+1
	if err := j.start(t.Context()); err == nil || !strings.Contains(err.Error(), "--heartbeat-tier Tier(4)") {
		t.Errorf("%v, want an error about the tier", err)
	}
}

// Losses of nodes are kept back while the link to the front end is broken, and until the front end has said over a new
// link that the job goes on.
func TestContact(t *testing.T) {
	t.Parallel()
	var c contact
	if !c.admits(1) || len(c.release(c.back())) > 0 {
		t.Error("a loss is kept back although there is a link")
	}
	c.cut()
	if c.admits(2) || c.admits(0) {
		t.Error("losses are known although the link is broken")
	}
	first := c.back()
	if c.admits(4) {
		t.Error("a loss is known before the front end has answered")
	}
	c.cut()
	if free := c.release(first); len(free) > 0 || c.admits(5) {
		t.Errorf("an old answer makes the losses of nodes %v known", free)
	}
	if free := c.release(c.back()); !slices.Equal(free, []int{2, 0, 4, 5}) || !c.admits(3) {
		t.Errorf("losses of nodes %v are known when the front end has answered, want those of 2, 0, 4 and 5", free)
	}
	if free := c.release(c.back()); len(free) > 0 {
		t.Errorf("losses of nodes %v are known twice", free)
	}
	c.end()
	if free := c.release(c.back()); c.admits(6) || len(free) > 0 || c.admits(6) {
		t.Error("losses are known after the end of the job")
	}
}
