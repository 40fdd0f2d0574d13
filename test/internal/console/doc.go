// Package console writes progress for people: whole lines that stay, and a
// live region at the bottom of a terminal that is redrawn in place. Where the
// output is no terminal (a pipe, a CI log) the live region is not drawn and
// [Console.Status] becomes a plain line every ten seconds at most.
//
//	out := console.New(os.Stdout)
//	out.Printf("starting %d nodes", 3)
//	out.Status("2 of 3 nodes ready")   // redrawn in place on a terminal
//	out.Done()                         // leaves nothing of the live region behind
//
// A Console is safe for use by several goroutines.
package console
