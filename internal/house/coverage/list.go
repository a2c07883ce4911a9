package coverage

import (
	"slices"
	"strings"
)

// Routine is one generic routine of the specification. It stands for all types, sizes and forms with a context.
type Routine struct {
	Name   string // such as shmem_put
	Family string
	V16    bool // new in OpenSHMEM 1.6; false: in 1.5 already
}

// families has the routines of OpenSHMEM 1.5 and, after a bar, those that 1.6 adds.
var families = [...]struct{ name, routines string }{
	{"setup and query", `init finalize global_exit my_pe n_pes pe_accessible addr_accessible ptr
		info_get_version info_get_name start_pes | query_initialized`},
	{"threads", `init_thread query_thread`},
	{"memory", `malloc free realloc align malloc_with_hints calloc`},
	{"teams", `team_my_pe team_n_pes team_get_config team_translate_pe team_split_strided team_split_2d
		team_destroy | team_ptr`},
	{"contexts", `ctx_create team_create_ctx ctx_destroy ctx_get_team | ctx_session_start ctx_session_stop`},
	{"remote memory access", `put p iput get g iget put_nbi get_nbi | ibput ibget`},
	{"atomic memory operations", `atomic_fetch atomic_set atomic_compare_swap atomic_swap atomic_fetch_inc atomic_inc
		atomic_fetch_add atomic_add atomic_fetch_and atomic_and atomic_fetch_or atomic_or atomic_fetch_xor
		atomic_xor atomic_fetch_nbi atomic_compare_swap_nbi atomic_swap_nbi atomic_fetch_inc_nbi
		atomic_fetch_add_nbi atomic_fetch_and_nbi atomic_fetch_or_nbi atomic_fetch_xor_nbi`},
	{"signals", `put_signal put_signal_nbi signal_fetch signal_wait_until | signal_add signal_set`},
	{"collectives", `barrier_all sync_all team_sync broadcast collect fcollect alltoall alltoalls
		and_reduce or_reduce xor_reduce max_reduce min_reduce sum_reduce prod_reduce | sum_inscan sum_exscan`},
	{"point-to-point synchronization", `wait_until wait_until_all wait_until_any wait_until_some wait_until_all_vector
		wait_until_any_vector wait_until_some_vector test test_all test_any test_some test_all_vector
		test_any_vector test_some_vector`},
	{"ordering", `fence quiet | pe_quiet`},
	{"locks", `set_lock test_lock clear_lock`},
}

// Routines lists all routines, family by family.
var Routines = func() (all []Routine) {
	for _, f := range families {
		v15, v16, _ := strings.Cut(f.routines, "|")
		for name := range strings.FieldsSeq(v15) {
			all = append(all, Routine{Name: full(name), Family: f.name})
		}
		for name := range strings.FieldsSeq(v16) {
			all = append(all, Routine{Name: full(name), Family: f.name, V16: true})
		}
	}
	return all
}()

// full adds the prefix to a routine's name. start_pes is older than the prefix and has none.
func full(name string) string {
	if name == "start_pes" {
		return name
	}
	return "shmem_" + name
}

// Canonical returns the name in the list for a routine's name: the same name or, for a form with a context, the name
// without the context. The result is false if the list has no such routine.
func Canonical(name string) (string, bool) {
	listed := func(name string) bool {
		return slices.ContainsFunc(Routines, func(r Routine) bool { return r.Name == name })
	}
	if listed(name) {
		return name, true
	}
	for _, prefix := range []string{"shmem_ctx_", "shmem_"} {
		if rest, is := strings.CutPrefix(name, prefix); is && listed(full(rest)) {
			return full(rest), true
		}
	}
	return name, false
}

// note describes names of the specification that have no Go name: what replaces them, or why they are missing.
type note struct{ names, text string }

// leftOut lists the routines that are left out on purpose.
var leftOut = []note{
	{
		"`shmem_barrier`, `shmem_sync`, `shmem_broadcast{32,64}`, `shmem_collect{32,64}`, `shmem_fcollect{32,64}`, `shmem_alltoall{32,64}`, `shmem_alltoalls{32,64}`, `shmem_*_to_all`",
		"collectives on active sets, deprecated since 1.5, though the specification still requires them of a library; `Team.SplitStrided` makes a team of the same PEs, which needs no pSync and pWrk arrays",
	},
	{"`long double` forms of all routines", "Go has no such type; `float64` is the widest"},
	{"`shmem_pcontrol`, `pshmem_*`", "the profiling interface renames C symbols; for Go programs there are pprof and `runtime/trace`"},
	{"`shmem_putmem`, `shmem_put8` to `shmem_put128` and kin", "forms of the routines above for bytes and sizes; `Put` and the others take any element type without pointers"},
	{"`shmem_TYPE_*`, `shmem_ctx_*`", "forms of the routines above; type parameters stand for the types, and each function takes a context or is a method of one"},
	{"static and global objects as symmetric data", "the Go runtime moves and scans its own data, so only objects from `Alloc` are symmetric; there is no other way to get a handle"},
	{
		"`shmem_add`, `shmem_cswap`, `shmem_fadd`, `shmem_finc`, `shmem_inc`, `shmem_swap`, `shmem_fetch`, `shmem_set`; `shmem_wait_until` of types without `TYPE`; `_my_pe`, `_num_pes`, `shmalloc` and kin; Fortran",
		"deprecated names, though the specification still requires them of a library; the functions above do the same, each under one name (`AtomicAdd`, `AtomicCompareSwap`, `WaitUntil`, `Alloc`)",
	},
	{"implicit finalization: a program that returns from `main` without `shmem_finalize`", "deprecated since 1.5; Go runs nothing when `main` returns, so oshrun reports a PE that ends without `Finalize` as failed, with status 1"},
	{"`shmem_wait` and others that were removed before 1.5", "no longer in the specification"},
}

// special lists the specification's rules for null arguments, and what goshmem does with them.
var special = []note{
	{"`shmem_team_destroy(SHMEM_TEAM_INVALID)`", "no-op: `Destroy` of a nil `*Team`"},
	{"`shmem_ctx_destroy`, `shmem_ctx_fence`, `shmem_ctx_quiet`, `shmem_ctx_session_start` and `_stop` of `SHMEM_CTX_INVALID`", "no-ops: the methods of a nil `*Ctx`, and `QuietPE`"},
	{"`shmem_free(NULL)`", "no-op without a barrier: `Free` of a zero `Sym`"},
	{"`shmem_realloc(NULL, n)`, `shmem_realloc(p, 0)`", "`Alloc` and `Free`: `Realloc` of a zero `Sym`, and to 0 elements"},
	{"allocation of 0 bytes", "no-op without a barrier: the result is a handle without elements, which all calls accept"},
	{"`shmem_team_my_pe`, `shmem_team_translate_pe` of `SHMEM_TEAM_INVALID`", "-1"},
	{"`shmem_team_n_pes(SHMEM_TEAM_INVALID)`", "0, not -1, so a loop over the PEs of a nil `*Team` ends at once"},
	{"`shmem_team_get_config`, `shmem_team_create_ctx`, splits of `SHMEM_TEAM_INVALID`", "an error, where C returns a value other than 0"},
	{"`shmem_ptr`, `shmem_team_ptr` of an object or PE that cannot be reached", "`nil, false`"},
	{"`nelems`, `nreduce` of collectives", "the length of `src`; for `Alltoall`, that divided by the number of PEs; for `AlltoallS`, the stride's `N`; `dst` may be longer, and elements after the result keep their values"},
	{"reductions and scans in place", "`dst` and `src` may be the same object, for `Broadcast`, too"},
	{"null pointers with a length of 0", "a zero `Sym` is an error, because it could be a forgotten allocation; a handle without elements is no error"},
}

// constants lists constants and handles of the specification that need no Source line in package shmem, and what
// replaces them.
var constants = []note{
	{"SHMEM_TEAM_INVALID", "a nil `*Team`"},
	{"SHMEM_CTX_INVALID", "a nil `*Ctx`"},
	{"SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE", "hints that goshmem does not need: any goroutine may use any context at the same cost, and `Fence` and `Quiet` always order stores, as puts are stores"},
	{"SHMEM_CTX_SESSION_BATCH", "a hint that goshmem does not need: in shared memory, batches of operations gain nothing"},
	{"SHMEM_VENDOR_STRING", "`InfoName`"},
	{"SHMEM_TEAM_NUM_CONTEXTS", "no mask: a zero field of `TeamConfig` means its default"},
	{"SHMEM_SYNC_VALUE, SHMEM_SYNC_SIZE, SHMEM_BCAST_SYNC_SIZE, SHMEM_COLLECT_SYNC_SIZE, SHMEM_ALLTOALL_SYNC_SIZE, SHMEM_ALLTOALLS_SYNC_SIZE, SHMEM_REDUCE_SYNC_SIZE, SHMEM_BARRIER_SYNC_SIZE, SHMEM_REDUCE_MIN_WRKDATA_SIZE", "none; they are for active sets"},
}

// required lists the constants and handles of the specification. Each must be in a Source line or in constants.
const required = `SHMEM_TEAM_WORLD SHMEM_TEAM_SHARED SHMEM_TEAM_INVALID SHMEM_TEAM_NUM_CONTEXTS SHMEM_CTX_DEFAULT
	SHMEM_CTX_INVALID SHMEM_CTX_SERIALIZED SHMEM_CTX_PRIVATE SHMEM_CTX_NOSTORE SHMEM_CTX_SESSION_BATCH
	SHMEM_THREAD_SINGLE SHMEM_THREAD_FUNNELED SHMEM_THREAD_SERIALIZED SHMEM_THREAD_MULTIPLE
	SHMEM_CMP_EQ SHMEM_CMP_NE SHMEM_CMP_GT SHMEM_CMP_GE SHMEM_CMP_LT SHMEM_CMP_LE SHMEM_SIGNAL_SET SHMEM_SIGNAL_ADD
	SHMEM_MALLOC_ATOMICS_REMOTE SHMEM_MALLOC_SIGNAL_REMOTE SHMEM_SYNC_VALUE SHMEM_SYNC_SIZE SHMEM_MAX_NAME_LEN
	SHMEM_MAJOR_VERSION SHMEM_MINOR_VERSION SHMEM_VENDOR_STRING`
