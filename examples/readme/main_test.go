package main

import (
	"os"
)

// The README promises a program that runs, and this is what it prints.
func Example() {
	dir := must(os.MkdirTemp("", "sojourn-readme-"))
	defer os.RemoveAll(dir)
	if err := os.Chdir(dir); err != nil { // it writes jobs.db where it stands
		panic(err)
	}
	main()
	// Output:
	// asking the gateway to charge order 42
	// completed: approved
}
