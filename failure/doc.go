// Package failure tells the processes of a job which of its PEs have died. On each
// node the step process writes a page of memory that all PEs read.
//
// The step creates a Page for each job, passes its descriptor to the PEs and
// publishes each death in it. A PE attaches the page as a View. A waiting PE loads
// the View's epoch, which changes with every death. Package symheap/layout declares
// the words and their order.
//
// A failure belongs to an incarnation: a PE is dead if its incarnation or a later
// one has been published. No publication is ever withdrawn.
package failure
