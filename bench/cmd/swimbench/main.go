// Command swimbench measures how soon the members of a SWIM group know that one of them has died, and how often they
// report one that lives. SWIM is github.com/hashicorp/memberlist, one process for each member, all on this machine:
//
//	go -C bench run ./cmd/swimbench --members 8,32,64 --period 100ms,500ms --config tuned --samples 5 --seed 1 --json
//	go -C bench run ./cmd/swimbench --members 32 --idle 60 --busy 4
//
// Each sample is a group of its own. The program starts the members, waits until each sees all others, kills a random one
// by SIGKILL, and waits until the survivors report it. With --idle it kills nobody and counts reports of living members.
//
// The same program is a member, for use alone:
//
//	swimbench member --name a --bind 127.0.0.1:7001
//	swimbench member --name b --bind 127.0.0.1:0 --join 127.0.0.1:7001 --config aggr --period 100ms --seconds 10
//
// A member prints a line of JSON for each event. It ends with its standard input, so a starter that dies leaves no member
// behind.
//
// Exit status: 0 if all samples were taken, whatever they show; 1 after an error; 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// The modes in which this program starts itself.
const (
	modeMember = "member"
	modeBusy   = "busy"
	modeNice   = "nice"
)

// errUsage reports a wrong command line.
var errUsage = errors.New("wrong usage")

func main() {
	err := dispatch(os.Args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "swimbench:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "swimbench:", err)
		os.Exit(1)
	}
}

// dispatch runs the mode that the first argument names, or the benchmark.
func dispatch(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case modeMember:
			return runMember(args[1:], os.Stdin, os.Stdout, os.Stderr)
		case modeBusy:
			return runBusy(os.Stdin)
		case modeNice:
			return runNice(args[1:])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return run(ctx, args, os.Stdout, os.Stderr)
}

// wrong returns a usage error.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errUsage, fmt.Errorf(format, args...))
}

// parseFlags parses flags that allow no further arguments.
func parseFlags(set *flag.FlagSet, args []string) error {
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return wrong("%w", err)
	case set.NArg() > 0:
		return wrong("arguments %q, want flags only", set.Args())
	}
	return nil
}
