package ft

// Phase is a part of a recovery.
type Phase string

// The phases, in the order in which a rank goes through them. If a death makes a recovery begin anew, they begin again.
const (
	PhaseAgree  Phase = "agree"  // Run: the ranks have agreed that body is to be called again
	PhaseShrink Phase = "shrink" // the communicator of the ranks that live is made
	PhaseSpawn  Phase = "spawn"  // the new processes have called Init; not with Shrink
	PhaseJoin   Phase = "join"   // the communicator that has the new processes is made; not with Shrink
	PhaseEpoch  Phase = "epoch"  // Run: the last epoch of all ranks is found, and body is called next
)

// Option is an option of Recover and Run.
type Option func(o *options)

// options are the options of a recovery.
type options struct {
	trace func(done Phase)
}

// Trace makes Recover and Run call f at the end of each phase of a recovery, in the goroutine that has called them. f may read a clock. A phase is also
// over when it has failed. In a process that Recover has started, Run goes through PhaseJoin and PhaseEpoch.
func Trace(f func(done Phase)) Option { return func(o *options) { o.trace = f } }

// optionsOf returns the options of a call.
func optionsOf(all []Option) (o options) {
	for _, set := range all {
		set(&o)
	}
	return o
}

// end notes that a phase is over.
func (o *options) end(p Phase) {
	if o.trace != nil {
		o.trace(p)
	}
}
