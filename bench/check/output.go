package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Rows of output: the speed at which two PEs together write through oshrun, and oshrun's memory.
const (
	outputPrefix = "output/"
	rowOutputRSS = outputPrefix + "max_rss"
)

var output = group{
	limits: []limit{
		{row: "output/plain/8", unit: "MB/s", least: 100},
		{row: "output/plain/100000", unit: "MB/s", least: 100},
		{row: "output/tag/8", unit: "MB/s", least: 100},
		{row: "output/tag/100000", unit: "MB/s", least: 100},
		{row: "output/raw/8", unit: "MB/s", least: 100},
		{row: rowOutputRSS, unit: "MiB", most: 32},
	},
	run: runFloods,
}

const (
	floodBytes      = 100e6 // bytes that each PE writes
	floodBytesQuick = 1e6
	// readerPause is how long the reader of the run "late reader" waits before it reads.
	readerPause = time.Second
)

// flood is a job whose PEs write lines.
type flood struct {
	name  string
	flags []string      // flags of oshrun
	line  int           // bytes of a line
	pause time.Duration // how long the reader waits first; a run with a pause measures memory only
}

var floods = []flood{
	{name: "plain", line: 8},
	{name: "plain", line: 100_000},
	{name: "tag", flags: []string{"--output", "tag"}, line: 8},
	{name: "tag", flags: []string{"--output", "tag"}, line: 100_000},
	{name: "raw", flags: []string{"--output", "raw"}, line: 8},
	{name: "late reader", flags: []string{"--output", "tag"}, line: 8, pause: readerPause},
}

// runFloods runs all floods once. A speed counts the bytes of the lines without their tags.
func runFloods(ctx context.Context, b *bed) error {
	program, err := b.buildOnce(ctx, "flood")
	if err != nil {
		return err
	}
	total := int(floodBytes)
	if b.quick {
		total = floodBytesQuick
	}
	var resident float64
	for _, f := range floods {
		args := slices.Concat([]string{b.oshrun, "-n", "2"}, f.flags, []string{program, "-line", strconv.Itoa(f.line), "-bytes", strconv.Itoa(total)})
		took, rss, err := drained(ctx, f.pause, args)
		if err != nil {
			return err
		}
		resident = max(resident, rss)
		if f.pause == 0 {
			b.values.add(goshmem, fmt.Sprintf("%s%s/%d", outputPrefix, f.name, f.line), 2*float64(total)/1e6/took.Seconds())
		}
	}
	b.values.add(goshmem, rowOutputRSS, resident)
	return nil
}

// drained runs a command and reads its output after a pause. It returns the time that the run took, and the largest
// resident memory of one of its processes in MiB.
func drained(ctx context.Context, pause time.Duration, command []string) (took time.Duration, rss float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	<-time.After(pause)
	_, err = io.Copy(io.Discard, out)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0, errors.New("this system does not report the resource usage of a process, want Linux")
	}
	return time.Since(begin), float64(usage.Maxrss) / 1024, nil
}
