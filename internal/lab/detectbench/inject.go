package detectbench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/xunix"
)

// scene is a job in which a PE is going to fail.
type scene struct {
	*rerun.Run
	stdin io.WriteCloser // standard input of the victim
	lines <-chan line    // output of the PEs
	said  *mentions      // standard error of oshrun
	pids  []int          // process numbers, by PE
	seen  []*seen        // reports, by PE
}

// runTrial starts a job and makes its last PE fail. A job that hangs and is killed counts as a trial: PEs without a
// report have missed the failure.
func (b *bench) runTrial(parent context.Context, c Case, tier string) (t *trial, err error) {
	ctx, cancel := context.WithTimeout(parent, 2*learnTimeout)
	defer cancel()
	j, err := b.start(ctx, c, tier)
	if err != nil {
		return nil, err
	}
	t = &trial{victim: b.PEs - 1, seen: j.seen, stops: c.stops}
	if err = j.ready(); err == nil {
		select { // until all survivors are in their calls
		case <-time.After(b.pause()):
			err = b.inject(ctx, j, c, t)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		err = j.survivors(b.PEs - 1)
	}
	_ = j.stdin.Close()
	for range j.lines { // read to the end, so that no PE blocks on a full pipe
	}
	ended := j.Ended(j.Wait(), launch.StatusTolerated)
	if ended != nil && (ctx.Err() == nil || parent.Err() != nil) {
		return nil, ended
	}
	if ended != nil {
		err = nil // the job hung: PEs without a report have missed the failure
	}
	t.said = j.said.at()
	return t, err
}

// start starts the job.
func (b *bench) start(ctx context.Context, c Case, tier string) (*scene, error) {
	r, err := rerun.New(ctx, "-n", strconv.Itoa(b.PEs), "--recover", "--watchdog", tier, "--heap-size", b.heap(c),
		"--stdin", strconv.Itoa(b.PEs-1), b.Program, c.Name, strconv.Itoa(b.Size))
	if err != nil {
		return nil, err
	}
	j := &scene{Run: r, said: &mentions{heard: make(chan struct{})}, pids: make([]int, b.PEs), seen: make([]*seen, b.PEs)}
	r.Listen(j.said)
	j.stdin, j.lines, err = rerun.StartTalk(r, func(l *line) bool { return l.PE >= 0 && l.PE < b.PEs })
	return j, err
}

// ready waits until all PEs are ready.
func (j *scene) ready() error {
	for left := len(j.pids); left > 0; left-- {
		l, ok := <-j.lines
		if !ok {
			return rerun.ErrEarlyEnd
		}
		j.pids[l.PE] = l.PID
	}
	return nil
}

// survivors waits for n reports, or for the end of the output.
func (j *scene) survivors(n int) error {
	for ; n > 0; n-- {
		l, ok := <-j.lines
		if !ok {
			return nil
		}
		j.seen[l.PE] = l.Seen
	}
	return nil
}

// inject makes the victim fail.
func (b *bench) inject(ctx context.Context, j *scene, c Case, t *trial) error {
	pid := j.pids[t.victim]
	j.said.listen(fmt.Sprintf("(pid %d)", pid))
	if c.limit {
		if err := b.limit.addProcess(pid); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	if c.signal == 0 {
		return j.continueVictim()
	}
	t.injected = xunix.Monotonic()
	if err := xunix.Kill(pid, c.signal); err != nil {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	if !c.stops {
		return nil
	}
	select {
	case <-j.said.heard:
	case <-time.After(learnTimeout / 3):
	case <-ctx.Done():
	}
	if err := xunix.Kill(pid, xunix.SIGCONT); err != nil {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return j.continueVictim()
}

// continueVictim tells the victim to go on with its case.
func (j *scene) continueVictim() error {
	_, err := io.WriteString(j.stdin, "go\n")
	return err
}

// mentions is a writer that records when oshrun has first mentioned all that it is to mention, such as a process.
type mentions struct {
	mu    sync.Mutex
	text  bytes.Buffer  // output since listen
	hears bool          // listen was called
	words []string      // what the text is to contain
	time  time.Duration // when all were there; 0: not yet, or there are no words
	heard chan struct{} // closed then
}

// listen begins to collect the text, and to look for words if there are any.
func (w *mentions) listen(words ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hears, w.words = true, words
	w.text.Reset()
}

// Write implements io.Writer.
func (w *mentions) Write(b []byte) (int, error) {
	now := xunix.Monotonic()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.hears {
		return len(b), nil
	}
	w.text.Write(b)
	if w.time != 0 || len(w.words) == 0 {
		return len(b), nil
	}
	for _, word := range w.words {
		if !bytes.Contains(w.text.Bytes(), []byte(word)) {
			return len(b), nil
		}
	}
	w.time = now
	close(w.heard)
	return len(b), nil
}

// contains says whether the output since listen contains a word.
func (w *mentions) contains(word string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.text.Bytes(), []byte(word))
}

// at returns when all words had first been mentioned, or 0 for never.
func (w *mentions) at() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}
