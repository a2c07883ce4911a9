package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// describeControl formats what the host and the cleaner are asked for.
func describeControl(a action) string {
	switch a.kind {
	case actControl:
		return fmt.Sprintf("control %s %v %+v", short(a.proc), a.procs, a.control)
	case actCleanUp:
		var out []string
		for _, item := range a.epilog.paths {
			var flags string
			for _, f := range []struct {
				on   bool
				name string
			}{{item.dir, "/"}, {item.recursive, "+"}, {item.emptyOnly, "0"}, {item.leaveTop, "^"}} {
				if f.on {
					flags += f.name
				}
			}
			out = append(out, item.path+flags)
		}
		for _, name := range a.epilog.ignore {
			out = append(out, "!"+name)
		}
		return "clean up " + strings.Join(out, " ")
	default:
		return fmt.Sprintf("action %d", a.kind)
	}
}

func control(targets []codec.Proc, infos ...codec.Info) *codec.JobControlRequest {
	return &codec.JobControlRequest{Targets: targets, Info: infos}
}

func paths(key, list string) codec.Info { return info(key, codec.StringValue(list)) }

func TestControlActions(t *testing.T) {
	w := started(t, 2)
	w.request(0, control(fenceOf(1).Procs, info(codec.KeyJobCtrlSignal, codec.IntValue(10))))
	w.request(0, control(nil, yes(codec.KeyJobCtrlKill)))
	w.request(0, control(fenceOf(0, 1, 0).Procs, yes(codec.KeyJobCtrlPause)))
	w.request(0, control(fenceOf(1).Procs, yes(codec.KeyJobCtrlTerminate), paths(codec.KeyJobCtrlID, "x")))
	w.request(0, control(fenceOf(7).Procs, yes(codec.KeyJobCtrlKill)))
	w.request(0, control(nil, info(codec.KeyJobCtrlSignal, codec.IntValue(-9))))
	w.request(0, control(nil, info(codec.KeyJobCtrlSignal, codec.StringValue("TERM"))))
	w.request(0, control(nil, yes("pmix.jctrl.preempt")))
	w.request(0, control(nil, info(codec.KeyJobCtrlResume, codec.BoolValue(false))))
	w.expect(
		"control 0 [job-1.1] {Signal:10 Kill:false Terminate:false Pause:false Resume:false}", "reply 0#101 ok",
		"control 0 [job-1.*] {Signal:0 Kill:true Terminate:false Pause:false Resume:false}", "reply 0#102 ok",
		"control 0 [job-1.0 job-1.1] {Signal:0 Kill:false Terminate:false Pause:true Resume:false}", "reply 0#103 ok",
		"control 0 [job-1.1] {Signal:0 Kill:false Terminate:true Pause:false Resume:false}", "reply 0#104 ok",
		"refused job control: process job-1.7 is unknown here, want a process of a job of this server", "reply 0#105 ERR_BAD_PARAM",
		"refused job control: pmix.jctrl.sig is -9, want 1 to 128", "reply 0#106 ERR_BAD_PARAM",
		"refused job control: pmix.jctrl.sig is TERM, want 1 to 128", "reply 0#107 ERR_BAD_PARAM",
		"reply 0#108 ERR_NOT_SUPPORTED", "reply 0#109 ERR_NOT_SUPPORTED",
	)
}

// A process may act on its own job and on jobs that it spawned; no other process may.
func TestControlPermission(t *testing.T) {
	w := started(t, 2)
	job := testJob(2)
	job.Nspace = second(0).Nspace
	s, err := newNspace(&job, first(0))
	if err != nil {
		t.Fatal(err)
	}
	w.step(event{kind: evAddJob, space: s, proc: first(0)})
	conn := w.connectAs(second(0))
	w.log = nil
	kill := yes(codec.KeyJobCtrlKill)
	w.request(0, control([]codec.Proc{second(1)}, kill))
	w.request(1, control([]codec.Proc{second(1)}, kill))
	w.requestOn(conn, control([]codec.Proc{second(1)}, kill))
	w.requestOn(conn, control([]codec.Proc{first(0)}, kill))
	w.requestOn(conn, control([]codec.Proc{second(0), first(0)}, paths(codec.KeyRegisterCleanup, "/tmp/x")))
	killed := "{Signal:0 Kill:true Terminate:false Pause:false Resume:false}"
	w.expect(
		"control 0 [job-2.1] "+killed, "reply 0#101 ok",
		"refused job control of job-2.1, want the caller's job or one that it spawned", "reply 1#101 ERR_NO_PERMISSIONS",
		"control job-2.0 [job-2.1] "+killed, "reply job-2.0#101 ok",
		"refused job control of job-1.0, want the caller's job or one that it spawned", "reply job-2.0#102 ERR_NO_PERMISSIONS",
		"refused job control of job-1.0, want the caller's job or one that it spawned", "reply job-2.0#103 ERR_NO_PERMISSIONS",
	)
}

func TestCleanUpOfProcess(t *testing.T) {
	w := started(t, 2)
	w.request(0, control(fenceOf(0).Procs, paths(codec.KeyRegisterCleanup, "/tmp/a,/tmp/b/")))
	w.request(0, control(fenceOf(0).Procs, paths(codec.KeyRegisterCleanupDir, "/tmp/d"), yes(codec.KeyCleanupRecursive)))
	w.request(0, control(fenceOf(0).Procs, paths(codec.KeyRegisterCleanupDir, "/tmp/d"), yes(codec.KeyCleanupLeaveTopdir)))
	w.request(0, control(fenceOf(0).Procs, paths(codec.KeyCleanupIgnore, "/tmp/d/keep")))
	w.request(0, control(fenceOf(0).Procs, paths(codec.KeyRegisterCleanupDir, "/tmp/e"), yes(codec.KeyCleanupEmpty)))
	w.log = nil
	w.closeConn(0) // the process may still run
	w.expect("lost 0")
	w.exit(0)
	w.expect("clean up /tmp/a /tmp/b /tmp/d/+^ /tmp/e/0 !/tmp/d/keep")
	w.exit(0)
	w.exit(1)
	w.expect()
}

func TestCleanUpOfNamespace(t *testing.T) {
	w := started(t, 3)
	w.request(0, control(nil, paths(codec.KeyRegisterCleanup, "/tmp/a")))
	w.request(1, control(fenceOf(codec.RankWildcard).Procs, paths(codec.KeyRegisterCleanup, "/tmp/b")))
	w.request(2, control(fenceOf(0, 1).Procs, paths(codec.KeyRegisterCleanup, "/tmp/c")))
	w.log = nil
	w.exit(0)
	w.expect("clean up /tmp/c")
	w.exit(2)
	w.expect()
	w.step(event{kind: evRemoveJob, proc: first(0)})
	if got := w.log[:2]; got[0] != "clean up /tmp/c" || got[1] != "clean up /tmp/a /tmp/b" {
		t.Errorf("%q, want the paths of process 1 and of the namespace", got)
	}
}

func TestCleanUpAtTheEnd(t *testing.T) {
	w, conns := twoJobs(t, 1)
	w.request(0, control(fenceOf(0).Procs, paths(codec.KeyRegisterCleanup, "/tmp/a")))
	w.requestOn(conns[0], control(nil, paths(codec.KeyRegisterCleanup, "/tmp/b")))
	w.log = nil
	w.step(event{kind: evClosing})
	w.step(event{kind: evClosing})
	w.expect("clean up /tmp/a", "clean up /tmp/b")
}

func TestUnfitCleanUps(t *testing.T) {
	for _, tt := range []struct {
		infos []codec.Info
		why   string
		want  codec.Status
	}{
		{[]codec.Info{paths(codec.KeyRegisterCleanup, "a")}, `pmix.reg.cleanup: path "a" is relative, want an absolute path`, codec.StatusErrBadParam},
		{[]codec.Info{paths(codec.KeyRegisterCleanup, "/tmp/a,")}, `pmix.reg.cleanup: path "" is relative, want an absolute path`, codec.StatusErrBadParam},
		{[]codec.Info{paths(codec.KeyRegisterCleanupDir, "/")}, `pmix.reg.cleanupdir: path "/" is the root, want a path below it`, codec.StatusErrBadParam},
		{[]codec.Info{paths(codec.KeyRegisterCleanupDir, "//.")}, `pmix.reg.cleanupdir: path "//." is the root, want a path below it`, codec.StatusErrBadParam},
		{[]codec.Info{paths(codec.KeyRegisterCleanupDir, "/tmp/../etc")}, `pmix.reg.cleanupdir: path "/tmp/../etc" contains .., want a path without it`, codec.StatusErrBadParam},
		{[]codec.Info{paths(codec.KeyCleanupIgnore, "x")}, `pmix.clnup.ignore: path "x" is relative, want an absolute path`, codec.StatusErrBadParam},
		{[]codec.Info{yes(codec.KeyRegisterCleanup)}, "pmix.reg.cleanup is true, want a string of paths with commas between them", codec.StatusErrBadParam},
		{
			[]codec.Info{paths(codec.KeyRegisterCleanup, "/tmp/a"), paths(codec.KeyCleanupIgnore, "/tmp/a")},
			"a path is to be both removed and ignored", codec.StatusErrConflictingCleanupDirectives,
		},
		{[]codec.Info{paths(codec.KeyCleanupIgnore, "/tmp/old")}, "a path is to be both removed and ignored", codec.StatusErrConflictingCleanupDirectives},
		{[]codec.Info{paths(codec.KeyRegisterCleanup, "/tmp/kept")}, "a path is to be both removed and ignored", codec.StatusErrConflictingCleanupDirectives},
		{
			[]codec.Info{paths(codec.KeyRegisterCleanup, strings.TrimSuffix(strings.Repeat("/a,", maxRemembered), ","))},
			"more than 4096 paths to clean up", codec.StatusErrOutOfResource,
		},
	} {
		w := started(t, 1)
		w.request(0, control(nil, paths(codec.KeyRegisterCleanup, "/tmp/old"), paths(codec.KeyCleanupIgnore, "/tmp/kept")))
		w.log = nil
		w.request(0, control(nil, tt.infos...))
		w.expect("refused job control: "+tt.why, "reply 0#102 "+statusName(tt.want))
		w.exit(0)
		w.expect("clean up /tmp/old !/tmp/kept")
	}
}
