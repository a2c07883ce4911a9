package agree

import (
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// TestClones runs a clone beside each machine under random schedules.
func TestClones(t *testing.T) {
	t.Parallel()
	for i, c := range configs(1, 0) {
		t.Run(nameOf(c), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(testenv.Rounds(100)) {
				trial(t, func(verbose bool) *world {
					w := randomWorld(c, seed, uint64(100+i), verbose)
					w.clones = true
					return w
				})
			}
		})
	}
}
