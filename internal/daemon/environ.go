package daemon

import (
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
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

// memHooksVariable returns the variable without which OpenSHMEM programs of Debian 12's
// Open MPI (4.1.4) end by SIGSEGV in shmem_finalize, under any launcher: UCX then
// watches memory by its own hooks, not by Open MPI's. A value in env wins.
func memHooksVariable(env []string) []string {
	if isSet(env, envvar.MemHooks) {
		return nil
	}
	return []string{envvar.MemHooks + "=0"}
}
