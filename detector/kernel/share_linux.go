//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64

package kernel

import (
	"errors"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/rs/zerolog"
)

// LoadPrograms loads programs and maps of another package into the kernel. Its programs may be attached to raw
// tracepoints by BTF, iterators and packets that come in (tcx), and may call functions of the kernel itself.
//
//   - Cost: as for Open, half of the time that the library takes; it reads only the types that the programs use.
func LoadPrograms(spec *ebpf.CollectionSpec, log zerolog.Logger) (*ebpf.Collection, error) {
	types, err := findNeededTypes(spec)
	if err == nil {
		var all *ebpf.Collection
		if all, err = types.load(spec.Copy()); err == nil || errors.Is(err, os.ErrPermission) {
			return all, err
		}
	}
	log.Debug().Err(err).Msg("the types of the kernel are read as a whole")
	return (&wholeTypes{btf.NewCache()}).load(spec)
}
