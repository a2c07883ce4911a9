package daemon

import (
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/netif"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// applyDirectives applies directives to an environment, in order.
func applyDirectives(env []string, infos []pmix.Info) []string {
	for _, info := range infos {
		if name, ok := info.Value.Str(); ok && info.Key == pmix.KeyUnsetEnvar {
			env = without(env, name)
			continue
		}
		e, ok := info.Value.Data.(pmix.Envar)
		if !ok {
			continue
		}
		old, had := lastOf(env, e.Name)
		value := e.Value
		switch {
		case info.Key == pmix.KeySetEnvar:
		case info.Key == pmix.KeyAddEnvar && !had:
		case info.Key == pmix.KeyPrependEnvar && had:
			value = e.Value + string(rune(e.Separator)) + old
		case info.Key == pmix.KeyAppendEnvar && had:
			value = old + string(rune(e.Separator)) + e.Value
		case info.Key == pmix.KeyPrependEnvar, info.Key == pmix.KeyAppendEnvar:
		default:
			continue
		}
		env = append(without(env, e.Name), e.Name+"="+value)
	}
	return env
}

// lastOf returns the value of a variable; the last setting counts.
func lastOf(env []string, name string) (value string, ok bool) {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// isSet says whether an environment has a variable.
func isSet(env []string, name string) bool {
	_, set := lastOf(env, name)
	return set
}

// without returns an environment that does not have a variable.
func without(env []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
}

// emulation returns the variable that ranks of Open MPI on emulated nodes need on a machine without a network: its TCP
// leaves out loopback, by which it finds no other node elsewhere. Values in env win.
//
// Nothing else is needed. Open MPI takes only processes for near that the PMIx server calls so, and the files of its
// shared memory, whose names are the same on all nodes of a kernel, lie in a directory of each step. MPICH finds
// near processes by PMI; between nodes its UCX uses what works, which on one kernel is shared memory. To force UCX to TCP is
// no way: MPICH 4.0 with UCX 1.13 hangs in MPI_Finalize then, under its own launcher, too.
func emulation(env []string, s *Share) []string {
	if !s.spans() || !s.Emulated || isSet(env, envvar.OpenMPITCPInclude) || isSet(env, envvar.OpenMPITCPExclude) {
		return nil
	}
	loopback, only := onlyLoopback()
	if !only {
		return nil
	}
	return []string{envvar.OpenMPITCPInclude + "=" + loopback}
}

// onlyLoopback returns the name of the loopback interface, and whether no other one is up.
func onlyLoopback() (name string, only bool) {
	all, err := netif.Interfaces()
	if err != nil {
		return "", false
	}
	for i := range all {
		switch up := all[i].Up; {
		case up && all[i].Loopback:
			name = all[i].Name
		case up:
			return "", false
		}
	}
	return name, name != ""
}

// memHooksVariable returns the variable without which OpenSHMEM programs of Debian 12's
// Open MPI (4.1.4) end by SIGSEGV in shmem_finalize, under any launcher: UCX then
// watches memory by its own hooks, not by Open MPI's. A value in env wins.
func memHooksVariable(env []string) []string {
	if isSet(env, envvar.MemHooks) {
		return nil
	}
	return []string{envvar.MemHooks + "=0"}
}
