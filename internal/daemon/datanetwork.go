package daemon

import (
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/netif"
)

// dataNetwork is the interfaces of this node by which PEs are to reach those of other nodes; none: whichever they like.
type dataNetwork []string

// openDataNetwork finds the interfaces that a filter means, see netif.ParseFilter; empty: nothing is wanted.
func openDataNetwork(filter string) (dataNetwork, error) {
	if filter == "" {
		return nil, nil
	}
	f, err := netif.ParseFilter(filter)
	var names []string
	if err == nil {
		var all []netif.Interface
		if all, err = netif.Interfaces(); err == nil {
			names, err = f.Choose(all)
		}
	}
	if err != nil {
		return nil, &HintError{
			fmt.Errorf("--data-interface %s: %w", filter, err),
			"every node of the job needs one: --data-interface 10.0.0.0/8, where they have different names",
		}
	}
	return names, nil
}

// variables returns those by which programs of other projects choose the network of their data. Values in env win.
//
//   - Open MPI reads one for its TCP transport. The list of interfaces that it leaves out excludes the other list.
//   - UCX, below MPICH and OpenSHMEM of Open MPI, reads one. It knows devices for remote memory access by their own names.
//   - libfabric, below other builds of MPICH, reads one with a single interface for its TCP provider.
func (d dataNetwork) variables(env []string) (vars []string) {
	if len(d) == 0 {
		return nil
	}
	if !isSet(env, envvar.OpenMPITCPInclude) && !isSet(env, envvar.OpenMPITCPExclude) {
		vars = append(vars, envvar.OpenMPITCPInclude+"="+strings.Join(d, ","))
	}
	if !isSet(env, envvar.UCXDevices) {
		var devices []string
		for _, name := range d {
			devices = append(append(devices, name), netif.RDMADevices(name)...)
		}
		vars = append(vars, envvar.UCXDevices+"="+strings.Join(devices, ","))
	}
	if !isSet(env, envvar.FabricTCP) {
		vars = append(vars, envvar.FabricTCP+"="+d[0])
	}
	return vars
}
