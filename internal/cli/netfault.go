package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/lab/netfault"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/nodes"
)

const netfaultHelp = `Lose some of the packets between the emulated nodes of a job.

  oshrun --emulate 4:netns --recover --heartbeat-period 100ms ./program &
  oshrun netfault --percent 10 $!                   all nodes, until Ctrl-C
  oshrun netfault --percent 100 --from 2 --for 3s $!     node2 is not heard for 3 s
  oshrun netfault --percent 30 --from 2 --to 3 --seed 7 $!

PID is that of oshrun, whose nodes have networks of their own. A program in the kernel
drops packets at random on the ports of their bridge. The seed is printed: with the
same one, the same numbers of packets are lost. At its end the command prints how
many packets each node has sent, and how many of them were lost.

It takes root. What TCP loses comes again later; pings and heartbeats do not.`

// netfaultFlags are the flags of netfault.
type netfaultFlags struct {
	from, to string
	percent  float64
	seed     uint64
	during   string
}

// frontEndWord stands for the front end in --to.
const frontEndWord = "front-end"

// newNetfault returns the command that loses packets.
func newNetfault() *cobra.Command {
	var f netfaultFlags
	cmd := &cobra.Command{
		Use:               "netfault --percent P [flags] PID",
		Short:             "Lose packets between the emulated nodes of a job",
		Long:              netfaultHelp,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return usagef("oshrun netfault --percent 10 PID", "PID: %q, want the number of an oshrun process", strings.Join(args, " "))
			case !cmd.Flags().Changed("percent"):
				return usagef("--percent 10", "--percent: nothing, want how many of a hundred packets are lost")
			}
			f.seed = seedOf(cmd, f.seed)
			return runNetfault(cmd, &f, args[0])
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Float64Var(&f.percent, "percent", 0, "how many of the packets are lost, `P` of a hundred")
	fs.StringVar(&f.from, "from", "", "only what this `node` sends: 2 is node2 (default: any)")
	fs.StringVar(&f.to, "to", "", "only what is for this `node`, or for "+frontEndWord+" (default: any)")
	fs.StringVar(&f.during, "for", "", "how long: seconds, or 30s, 1m (default: until Ctrl-C)")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of what is lost (default: a new one, which is printed)")
	completeNothing(cmd, "percent", "from", "to", "for", "seed")
	return cmd
}

func runNetfault(cmd *cobra.Command, f *netfaultFlags, pid string) error {
	c, err := f.config(pid)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if f.during != "" {
		d, err := duration("--for", f.during)
		if err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	l, err := netfault.Start(*c)
	if err != nil {
		return fmt.Errorf("netfault: %w", err)
	}
	begin := time.Now()
	if err = emit(cmd, fmt.Appendf(nil, "%v %% of the packets are lost, seed %d\n", f.percent, f.seed)); err == nil {
		<-ctx.Done()
	}
	counts, lost := l.Counts()
	return measure.FirstError(err, lost, l.Close(), emit(cmd, lossesTable(c.Interfaces, counts, time.Since(begin))))
}

// config returns what is lost.
func (f *netfaultFlags) config(pid string) (*netfault.Config, error) {
	c := &netfault.Config{Percent: f.percent, Seed: f.seed}
	number, err := strconv.Atoi(pid)
	if err != nil {
		return nil, usagef("oshrun netfault --percent 10 PID", "PID: %q, want the number of an oshrun process", pid)
	}
	if !(f.percent >= 0 && f.percent <= 100) {
		return nil, usagef("--percent 10", "--percent: %v, want 0 to 100", f.percent)
	}
	all, err := rerun.LookAtProcesses()
	if err != nil {
		return nil, err
	}
	holder, err := all.HolderOf(number)
	if err != nil {
		return nil, usagef("oshrun --emulate 4:netns ... & oshrun netfault --percent 10 $!", "PID: %w", err)
	}
	if uid := os.Geteuid(); uid != 0 {
		return nil, usagef("sudo oshrun netfault ...", "netfault: user %d, want root: a program in the kernel loses the packets", uid)
	}
	c.Process = holder.PID
	ports, err := netfault.Interfaces(holder.PID)
	if err != nil {
		return nil, fmt.Errorf("netfault: %w", err)
	}
	var there []string // nodes
	for node := range nodes.MostEmulated {
		if port := nodes.PortOf(node); slices.Contains(ports, port) {
			there = append(there, strconv.Itoa(node))
			if f.from == "" || f.from == strconv.Itoa(node) {
				c.Interfaces = append(c.Interfaces, port)
			}
		}
	}
	if len(c.Interfaces) == 0 {
		return nil, usagef("--from 0", "--from: %q, want a node of the job: %s", f.from, strings.Join(there, ", "))
	}
	c.To, err = f.receiver(there)
	return c, err
}

// receiver returns the address to which packets are lost; none: to all.
func (f *netfaultFlags) receiver(there []string) (a netip.Addr, err error) {
	switch f.to {
	case "":
		return a, nil
	case frontEndWord:
		return nodes.FrontEndAddress(), nil
	}
	if !slices.Contains(there, f.to) {
		return a, usagef("--to 0", "--to: %q, want a node of the job (%s) or %s", f.to, strings.Join(there, ", "), frontEndWord)
	}
	node, err := strconv.Atoi(f.to)
	return nodes.AddressOf(node), err
}

// lossesTable returns what has happened to packets.
func lossesTable(ports []string, counts []netfault.Count, d time.Duration) []byte {
	rows := [][]string{{"PORT", "PACKETS", "LOST"}}
	for i, x := range counts {
		rows = append(rows, []string{ports[i], fmt.Sprint(x.Seen), fmt.Sprint(x.Lost)})
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "in %v:\n", d.Round(time.Millisecond))
	tabulate(&b, rows)
	return b.Bytes()
}
