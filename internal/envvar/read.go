package envvar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/coll/tree"
)

// Lookup returns the value of an environment variable. os.LookupEnv is a Lookup.
type Lookup = func(name string) (value string, ok bool)

// ValueError reports an invalid value of a variable.
type ValueError struct {
	Name  string // name of the variable or flag; empty if only a value was parsed
	Value string // the value as it was given
	Want  string // allowed values
	Cause string // why the value is invalid
}

// Error names the variable, its value, the allowed values and the cause.
func (e *ValueError) Error() string {
	name := ""
	if e.Name != "" {
		name = e.Name + "="
	}
	return fmt.Sprintf("%s%q, want %s; %s", name, e.Value, e.Want, e.Cause)
}

// Level is a log level, in rising order of severity.
type Level uint8

// The levels of GOSHMEM_LOG.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
	LevelOff
)

var levelNames = []string{"trace", "debug", "info", "warn", "error", "off"}

// String returns the level as it is spelled in GOSHMEM_LOG.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "level " + strconv.Itoa(int(l))
}

var capabilities = []string{
	"cc", "ebpf", "gdb", "libpmix", "mpich", "netns", "openmpi", "oshmem", "pmi1", "root", "slurm", "ssh", "user", "userns",
}

// CheckCollectives is the check that GOSHMEM_CHECK may name.
const CheckCollectives = "collectives"

var checks = []string{CheckCollectives}

// IsSet says whether a variable is set, under its own or its deprecated name. The empty string counts as set.
func IsSet(lookup Lookup, name string) bool {
	_, _, ok := get(lookup, find(name))
	return ok
}

// HeapSize returns SHMEM_SYMMETRIC_SIZE in bytes, or its default. The error is a *ValueError.
func HeapSize(lookup Lookup) (uint64, error) {
	return read(lookup, SymmetricSize, DefaultSymmetricSize, ParseSize)
}

// LogLevel returns the level of GOSHMEM_LOG. If that is unset, the level is debug if SHMEM_DEBUG is set, and off
// otherwise. The error is a *ValueError.
func LogLevel(lookup Lookup) (Level, error) {
	l := LevelOff
	if IsSet(lookup, Debug) {
		l = LevelDebug
	}
	return read(lookup, Log, l, parseLevel)
}

// Required returns the capabilities that GOSHMEM_TEST_REQUIRE names, sorted and without duplicates. The error
// is a *ValueError.
func Required(lookup Lookup) ([]string, error) {
	return read(lookup, TestRequire, nil, parseCapabilities)
}

// Checks returns the checks that GOSHMEM_CHECK names, sorted and without duplicates. The error is a
// *ValueError.
func Checks(lookup Lookup) ([]string, error) {
	return read(lookup, Check, nil, parseChecks)
}

// UsesExpress says whether GOSHMEM_EXPRESS is on, which is the default. The error is a *ValueError.
func UsesExpress(lookup Lookup) (bool, error) {
	return read(lookup, Express, true, parseSwitch)
}

// Radix returns GOSHMEM_COLL_RADIX, or 0 if it is unset. The error is a *ValueError.
func Radix(lookup Lookup) (int, error) {
	return read(lookup, CollRadix, 0, ParseRadix)
}

// ProgressBar says whether GOSHMEM_PROGRESS is bar. The error is a *ValueError.
func ProgressBar(lookup Lookup) (bool, error) {
	return read(lookup, Progress, false, parseProgress)
}

// ProfileDir returns GOSHMEM_PPROF, or "" if it is unset.
func ProfileDir(lookup Lookup) string {
	dir, _ := read(lookup, Pprof, "", func(s string) (string, error) { return s, nil }) // any string is valid
	return dir
}

// Procs returns GOMAXPROCS, or 0 if it is unset. The error is a *ValueError.
func Procs(lookup Lookup) (int, error) {
	return read(lookup, MaxProcs, 0, parseMaxProcs)
}

// Rank returns PMIX_RANK and whether it is set. The error is a *ValueError.
func Rank(lookup Lookup) (rank uint32, ok bool, err error) {
	rank, err = read(lookup, PMIxRank, 0, parseRank)
	return rank, IsSet(lookup, PMIxRank), err
}

// get returns the value of v and the name under which it was found.
func get(lookup Lookup, v *Var) (value, name string, ok bool) {
	if value, ok = lookup(v.Name); ok {
		return value, v.Name, true
	}
	if v.Alias != "" {
		if value, ok = lookup(v.Alias); ok {
			return value, v.Alias, true
		}
	}
	return "", v.Name, false
}

// read parses a variable; an error carries the name under which it was found.
func read[T any](lookup Lookup, name string, unset T, parse func(string) (T, error)) (T, error) {
	value, found, ok := get(lookup, find(name))
	if !ok {
		return unset, nil
	}
	v, err := parse(value)
	if err != nil {
		return unset, setName(found, err)
	}
	return v, nil
}

// setName sets the name in a *ValueError and returns the error.
func setName(name string, err error) error {
	if bad, ok := errors.AsType[*ValueError](err); ok {
		bad.Name = name
	}
	return err
}

func parseLevel(s string) (Level, error) {
	i := slices.Index(levelNames, strings.ToLower(strings.TrimSpace(s)))
	if i < 0 {
		return LevelOff, &ValueError{Value: s, Want: oneOf(levelNames), Cause: "no such level"}
	}
	return Level(i), nil
}

// switches are the values of a variable that turns something on or off.
var switches = []string{"on", "off"}

func parseSwitch(s string) (bool, error) {
	switch s = strings.ToLower(strings.TrimSpace(s)); s {
	case "on":
		return true, nil
	case "off":
		return false, nil
	default:
		return false, &ValueError{Value: s, Want: oneOf(switches), Cause: "neither of them"}
	}
}

func parseCapabilities(s string) ([]string, error) { return parseList(s, capabilities) }

func parseChecks(s string) ([]string, error) { return parseList(s, checks) }

// parseList reads a comma list of allowed words.
func parseList(s string, allowed []string) ([]string, error) {
	var list []string
	for c := range strings.SplitSeq(s, ",") {
		if c = strings.TrimSpace(c); c == "" {
			continue
		}
		if !slices.Contains(allowed, c) {
			return nil, &ValueError{
				Value: s, Want: "a comma list of " + oneOf(allowed), Cause: strconv.Quote(c) + " is none of them",
			}
		}
		list = append(list, c)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func parseMaxProcs(s string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
	if err != nil || n < 1 {
		return 0, &ValueError{Value: s, Want: "an integer from 1", Cause: integerCause(err)}
	}
	return int(n), nil
}

// wantRadix says what a radix is.
var wantRadix = fmt.Sprintf("integer from %d to %d", tree.LeastRadix, tree.MostRadix)

// ParseRadix parses the radix of the trees of nodes. The error is a *ValueError without a name.
func ParseRadix(s string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
	if err == nil && n > tree.MostRadix {
		err = strconv.ErrRange
	}
	if err != nil || n < tree.LeastRadix {
		return 0, &ValueError{Value: s, Want: "an " + wantRadix, Cause: integerCause(err)}
	}
	return int(n), nil
}

func parseRank(s string) (uint32, error) {
	// PMIx reserves the numbers from 2^31 on for marks such as "any rank".
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, &ValueError{Value: s, Want: "an integer from 0", Cause: integerCause(err)}
	}
	return uint32(n), nil
}

func integerCause(err error) string {
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "too large"
	case err != nil:
		return "not an integer"
	default:
		return "too small"
	}
}

func oneOf(names []string) string { return strings.Join(names, ", ") }

func parseProgress(s string) (bar bool, err error) {
	switch s {
	case "bar":
		return true, nil
	case "lines":
		return false, nil
	}
	return false, &ValueError{Value: s, Want: "bar or lines", Cause: "it is neither"}
}
