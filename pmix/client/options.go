package client

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// ErrNotLaunched says that no PMIx server started this process.
var ErrNotLaunched = errors.New("pmix: this process was not started by a PMIx server (PMIX_NAMESPACE is not set)")

// Options say who the client is and where its server listens.
type Options struct {
	Nspace   string
	Rank     codec.Rank
	Address  string // address:port, the address in numbers
	Security string // codec.SecurityNone or codec.SecurityNative
}

// FromEnv reads the variables that a PMIx server gives to the processes that it starts; lookup is os.LookupEnv or a
// stand-in. It returns false when there are none.
//
//   - Errors: a variable that is missing or malformed, with its name, its value and what it should be.
func FromEnv(lookup func(string) (string, bool)) (Options, bool, error) {
	nspace, ok := lookup("PMIX_NAMESPACE")
	if !ok {
		return Options{}, false, nil
	}
	if nspace == "" || len(nspace) > codec.MaxNspaceLen {
		return Options{}, true, envError("PMIX_NAMESPACE", nspace, fmt.Sprintf("1 to %d bytes", codec.MaxNspaceLen))
	}
	opts := Options{Nspace: nspace}
	var err error
	if opts.Rank, err = envRank(lookup); err != nil {
		return Options{}, true, err
	}
	if opts.Address, err = envAddress(lookup); err != nil {
		return Options{}, true, err
	}
	if opts.Security, err = envSecurity(lookup); err != nil {
		return Options{}, true, err
	}
	return opts, true, envFormat(lookup)
}

func envError(name, value, want string) error {
	return fmt.Errorf("pmix: %s=%q, want %s", name, value, want)
}

func envRank(lookup func(string) (string, bool)) (codec.Rank, error) {
	const name = "PMIX_RANK"
	value, ok := lookup(name)
	if !ok {
		return 0, fmt.Errorf("pmix: %s is not set, want a rank, as PMIX_NAMESPACE is set", name)
	}
	rank, err := strconv.ParseUint(value, 10, 32)
	if err != nil || codec.Rank(rank) >= codec.RankMaxValid {
		return 0, envError(name, value, fmt.Sprintf("a number below %d", uint32(codec.RankMaxValid)))
	}
	return codec.Rank(rank), nil
}

// uriNames are the variables for servers that speak this format, the newest first.
var uriNames = []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4"}

func envAddress(lookup func(string) (string, bool)) (string, error) {
	for _, name := range uriNames {
		uri, ok := lookup(name)
		if !ok {
			continue
		}
		address, ok := addressOf(uri)
		if !ok {
			return "", envError(name, uri, uriForm)
		}
		return address, nil
	}
	return "", fmt.Errorf("pmix: %s is not set, want the address of the server, as PMIX_NAMESPACE is set", uriNames[0])
}

const uriForm = "server.rank;tcp4://address:port"

// addressOf returns the address in a server's URI.
func addressOf(uri string) (string, bool) {
	_, address, ok := strings.Cut(uri, ";")
	for _, scheme := range []string{"tcp4://", "tcp6://"} {
		if rest, isOne := strings.CutPrefix(address, scheme); ok && isOne && validAddress(rest) {
			return rest, true
		}
	}
	return "", false
}

func validAddress(address string) bool {
	addr, err := netip.ParseAddrPort(address)
	return err == nil && addr.Port() > 0
}

func envSecurity(lookup func(string) (string, bool)) (string, error) {
	const name = "PMIX_SECURITY_MODE"
	value, ok := lookup(name)
	if !ok {
		return codec.SecurityNone, nil
	}
	modes := strings.Split(value, ",")
	for _, mode := range []string{codec.SecurityNone, codec.SecurityNative} {
		if slices.Contains(modes, mode) {
			return mode, nil
		}
	}
	return "", envError(name, value, "a list with none or native")
}

// envFormat checks that the server offers the encoding that this client speaks.
func envFormat(lookup func(string) (string, bool)) error {
	if value, ok := lookup("PMIX_GDS_MODULE"); ok && !slices.Contains(strings.Split(value, ","), codec.GDSHash) {
		return envError("PMIX_GDS_MODULE", value, "a list with "+codec.GDSHash)
	}
	const want = "PMIX_BFROP_BUFFER_NON_DESC"
	if value, ok := lookup("PMIX_BFROP_BUFFER_TYPE"); ok && value != want {
		return envError("PMIX_BFROP_BUFFER_TYPE", value, want)
	}
	return nil
}
