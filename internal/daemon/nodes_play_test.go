package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/goshmem/goshmem/pmix/client"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// dialServer joins the job as a PMIx client.
func dialServer(ctx context.Context) (*client.Client, error) {
	opts, ok, err := client.FromEnv(os.LookupEnv)
	if err == nil && !ok {
		err = errors.New("no PMIx server")
	}
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, opts)
}

// playExchange puts a value for all, which a fence brings to them, and one that the next PE asks for without a fence.
// It says what it has found, and what it knows of its node.
func playExchange() error {
	ctx, stop := context.WithTimeout(context.Background(), deadline)
	defer stop()
	c, err := dialServer(ctx)
	if err != nil {
		return err
	}
	n, me := c.Size(), int(c.Rank())
	if err := put(ctx, c, "early", me+1); err != nil {
		return err
	}
	if err := c.Fence(ctx, true); err != nil {
		return err
	}
	sum := 0
	for pe := range n {
		v, err := get(ctx, c, pe, "early")
		if err != nil {
			return err
		}
		sum += v
	}
	if err := put(ctx, c, "late", 10*me); err != nil {
		return err
	}
	late, err := get(ctx, c, (me+1)%n, "late")
	if err != nil {
		return err
	}
	fmt.Printf("sum %d late %d node %d local rank %d peers %v\n", sum, late, c.NodeID(), c.LocalRank(), c.LocalPeers())
	if err := c.Fence(ctx, false); err != nil { // nobody leaves before all have asked
		return err
	}
	return c.Finalize(ctx)
}

func put(ctx context.Context, c *client.Client, key string, n int) error {
	if err := c.Put(pmix.ScopeGlobal, key, pmix.Uint32Value(uint32(n))); err != nil {
		return err
	}
	return c.Commit(ctx)
}

func get(ctx context.Context, c *client.Client, pe int, key string) (int, error) {
	v, err := c.Get(ctx, pmix.Proc{Nspace: c.Nspace(), Rank: pmix.Rank(pe)}, key, client.GetOptions{})
	if err != nil {
		return 0, err
	}
	n, ok := v.Data.(uint32)
	if !ok {
		return 0, fmt.Errorf("%s of PE %d is %v, want a uint32", key, pe, v)
	}
	return int(n), nil
}

// playWatch joins the job and says what events tell of failures. Then it waits in a fence, and says how that ends.
func playWatch() error {
	ctx := context.Background()
	c, err := dialServer(ctx)
	if err != nil {
		return err
	}
	codes := []pmix.Status{pmix.StatusEventNodeDown, pmix.StatusErrProcAbortedBySig, pmix.StatusErrExitNonzeroTerm}
	_, err = c.Events.Register(ctx, codes, client.HandlerOptions{}, func(ev *client.Event) client.Result {
		about := make([]pmix.Rank, len(ev.Affected))
		for i, p := range ev.Affected {
			about[i] = p.Rank
		}
		fmt.Printf("event %v about %v\n", ev.Status, about)
		return client.Result{}
	})
	if err != nil {
		return err
	}
	fmt.Println("watches")
	err = c.Fence(ctx, false)
	fmt.Println("fence:", errors.Is(err, client.ErrProcFailed))
	<-c.Lost()
	return nil
}
