// Package failure is how the processes of a job learn on their node which of its
// PEs have died: by a page of memory that the step process writes and all PEs read.
//
// The step makes a Page for each job, hands its descriptor to the PEs and
// publishes each death in it. A PE attaches the page as a View. Whoever waits
// looks at the View's epoch, which is one load; it has changed when somebody has
// died meanwhile. Package symheap/layout has the words and their order.
//
// A failure is of an incarnation: a PE is dead if its incarnation or a later one
// has been published. Nothing that is published is ever taken back.
package failure
