// Package pmi1 serves PMI-1, the line protocol of older MPI libraries, MPICH first among them. A process finds its
// connection to the server under the descriptor that PMI_FD names.
//
// The state (stored pairs, barriers, published names, spawn requests under way) is a pure core: core.Step takes an
// event and appends the actions that follow from it. The driver is one goroutine for all connections, so that a process
// that never speaks PMI-1 costs a pair of sockets and nothing else. In a job on several nodes a barrier is a fence between
// their servers, and the front end has the published names.
//
// PMI-1 has no message for failures. When a process of the job has ended, a barrier cannot complete; the server answers
// it with a reply that no client expects. MPICH then reports that the barrier failed, and can still ask for the end of
// the job. Completing the barrier without the dead process would not help: MPI_Finalize would wait for it next, in
// memory that the processes share.
package pmi1
