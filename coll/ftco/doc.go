// Package ftco holds the machines of fault-tolerant collective operations.
package ftco
