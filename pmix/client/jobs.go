package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Jobs spawns jobs, connects this process to others, and keeps what the server says about them.
type Jobs struct {
	session *session
	outputs *outputs
	nspace  string      // this process's job
	host    codec.Value // name of this process's node

	mu     sync.Mutex
	others map[string]*jobDescription // descriptions of other jobs by namespace
}

func newJobs(s *session, job *jobDescription, outputs *outputs) *Jobs {
	host, _ := job.find(s.opts.Rank, codec.KeyHostname)
	return &Jobs{session: s, outputs: outputs, nspace: s.opts.Nspace, host: host, others: map[string]*jobDescription{}}
}

// App is one program of a job to be spawned.
type App struct {
	Path  string       // the program's file
	Args  []string     // arguments, the program's name first; empty: the name alone
	Env   []string     // in addition to the environment that the server gives
	Dir   string       // working directory; empty: the server's choice
	Procs int          // number of processes
	Info  []codec.Info // further directives
}

// SpawnOptions direct a spawn.
type SpawnOptions struct {
	// Output gets what the new job writes, from its first byte on; nil drops it. Forwarding.Pull says how it is called.
	Output func(Output)
	Info   []codec.Info // further directives
}

// Spawn has the server start a job and returns its namespace.
//
//   - Completion: the processes are started; Connect waits until they have come up.
//   - Errors: a StatusError with what the launcher says.
func (j *Jobs) Spawn(ctx context.Context, apps []App, opts SpawnOptions) (nspace string, err error) {
	forward := codec.BoolValue(opts.Output != nil) // sent also when false: a tool gets the output without it
	r := &codec.SpawnRequest{Info: append(slices.Clip(opts.Info),
		codec.Info{Key: codec.KeyFwdStdout, Value: forward}, codec.Info{Key: codec.KeyFwdStderr, Value: forward})}
	if opts.Output != nil {
		j.outputs.beginSpawn()
		defer j.outputs.endSpawn(&nspace, opts.Output)
	}
	for _, a := range apps {
		args := a.Args
		if len(args) == 0 {
			args = []string{a.Path}
		}
		r.Apps = append(r.Apps, codec.App{
			Cmd: a.Path, Argv: args, Env: a.Env, Cwd: a.Dir, MaxProcs: int32(min(a.Procs, 1<<31-1)), Info: a.Info,
		})
	}
	answer, err := j.session.request(ctx, "spawn", r)
	if err != nil {
		return "", err
	}
	reply, err := codec.DecodeSpawnReply(answer)
	if err != nil {
		return "", fmt.Errorf("pmix spawn: answer: %w", err)
	}
	if err := statusError("spawn", reply.Status); err != nil {
		return "", err
	}
	return reply.Job.Nspace, j.keepInfo(&reply.Job)
}

// Connect waits until the given processes of several jobs have all called it; a wildcard rank stands for a whole job.
// From then on each of them knows what the servers say about the others' jobs.
//
//   - Collective: over the processes, which must name the same set everywhere and include the caller.
//   - Errors: ErrProcFailed when one of them ended instead; ErrTimeout after the timeout, 0 for none; the context's.
func (j *Jobs) Connect(ctx context.Context, procs []codec.Proc, timeout time.Duration) error {
	answer, err := j.session.request(ctx, "connect", &codec.ConnectRequest{Procs: procs, Info: appendTimeout(nil, timeout)})
	if err != nil {
		return err
	}
	reply, err := codec.DecodeConnectReply(answer)
	if err != nil {
		return fmt.Errorf("pmix connect: answer: %w", err)
	}
	if err := statusError("connect", reply.Status); err != nil {
		return err
	}
	for i := range reply.Jobs {
		if err := j.keepInfo(&reply.Jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Disconnect ends what Connect began, in the same way. The descriptions of other jobs are dropped.
func (j *Jobs) Disconnect(ctx context.Context, procs []codec.Proc, timeout time.Duration) error {
	r := &codec.DisconnectRequest{Procs: procs, Info: appendTimeout(nil, timeout)}
	err := j.session.requestStatus(ctx, "disconnect", r)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range procs {
		delete(j.others, p.Nspace)
	}
	return err
}

// isReserved reports whether only a server sets a key. Servers describe whole jobs by such keys.
func isReserved(key string) bool { return strings.HasPrefix(key, "pmix") }

// keepInfo keeps the description of another job as it comes with the answer to a spawn or a connect.
func (j *Jobs) keepInfo(info *codec.JobInfo) error {
	d := emptyJobDescription()
	for _, kv := range info.Pairs {
		if err := d.add(kv, codec.RankUndef); err != nil {
			return fmt.Errorf("pmix: description of the job %s: %w", info.Nspace, err)
		}
	}
	j.keep(info.Nspace, d)
	return nil
}

// keep keeps the description of another job.
func (j *Jobs) keep(nspace string, d *jobDescription) {
	for _, node := range d.nodes { // jobs may number nodes differently
		if node[codec.KeyHostname] == j.host {
			d.nodeID, _ = number(node, codec.KeyNodeID)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if nspace != j.nspace {
		j.others[nspace] = d
	}
}

// find looks a key up in the descriptions of other jobs that this process has.
func (j *Jobs) find(proc codec.Proc, key string) (codec.Value, bool) {
	j.mu.Lock()
	d := j.others[proc.Nspace]
	j.mu.Unlock()
	if d == nil {
		return codec.Value{}, false
	}
	return d.find(proc.Rank, key)
}

// get asks the server for everything that it knows of another job, and looks a key up in it.
func (j *Jobs) get(ctx context.Context, op string, proc codec.Proc, key string) (codec.Value, error) {
	r := &codec.GetRequest{Proc: codec.Proc{Nspace: proc.Nspace, Rank: codec.RankWildcard}, Key: key}
	answer, err := j.session.request(ctx, op, r)
	if err != nil {
		return codec.Value{}, err
	}
	reply, err := codec.DecodeGetReply(answer)
	if err != nil {
		return codec.Value{}, fmt.Errorf("pmix %s: answer: %w", op, err)
	}
	if err := statusError(op, reply.Status); err != nil {
		return codec.Value{}, err
	}
	d := emptyJobDescription()
	for i := range reply.Data {
		if err := d.addData(&reply.Data[i]); err != nil {
			return codec.Value{}, fmt.Errorf("pmix %s: answer: %w", op, err)
		}
	}
	j.keep(proc.Nspace, d)
	if v, ok := d.find(proc.Rank, key); ok {
		return v, nil
	}
	return codec.Value{}, &StatusError{Op: op, Status: codec.StatusErrNotFound}
}
