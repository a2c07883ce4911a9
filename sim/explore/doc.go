// Package explore runs real protocol machines under every order of delivery and
// every fault that it can.
package explore
